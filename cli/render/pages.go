package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
)

// Pages collects the items of several pages, to print them as one page.
type Pages struct {
	Key   string // of the items
	Next  string // the key with the position of the next page
	Flag  string // takes the position of the first page, if the command has such a flag
	all   bool
	next  string // the position of the page after those that were read
	first json.RawMessage
	pages []map[string]json.RawMessage
	items []json.RawMessage
}

// Read reads pages until they have limit items, and with all to the last one. page reads
// the next page, with at most limit items, and returns it and the position of the page
// after it. A page may be short or empty, also before the last.
func (p *Pages) Read(limit int, all bool, page func(limit int) (raw json.RawMessage, next string, err error)) error {
	p.all = all
	for left := limit; ; {
		raw, next, err := page(left)
		if err != nil {
			return err
		}
		if err := p.add(raw); err != nil {
			return fmt.Errorf("read a page of %s: %w", p.Key, err)
		}
		p.next = next
		if next == "" || !all && len(p.items) >= limit {
			return nil
		}
		if !all {
			left = limit - len(p.items)
		}
	}
}

func (p *Pages) add(raw json.RawMessage) error {
	var page map[string]json.RawMessage
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &page); err != nil {
		return err
	}
	if err := json.Unmarshal(page[p.Key], &items); err != nil {
		return err
	}
	if len(p.pages) == 0 {
		p.first = raw
	}
	p.pages, p.items = append(p.pages, page), append(p.items, items...)
	return nil
}

// Show prints the items, as a table or as JSON, and on stderr how to read the rest. failed
// is the error of Read, if any: the items before it are printed, and Show returns it. JSON
// then has nothing from the pages except the position: an update token would cover items
// that were not read.
func (p *Pages) Show(stdout, stderr io.Writer, output Format, table func() error, failed error) error {
	if failed != nil && len(p.items) == 0 {
		return failed
	}
	var err error
	switch {
	case output != AsJSON:
		err = table()
	case failed != nil || p.all:
		err = p.print(stdout, map[string]json.RawMessage{})
	case len(p.pages) == 1:
		err = JSON(stdout, p.first)
	default:
		err = p.print(stdout, maps.Clone(p.pages[0]))
	}
	switch {
	case err != nil:
		return cmp.Or(failed, err)
	case failed != nil && p.Flag == "":
		_, _ = fmt.Fprintln(stderr, "The list is incomplete.")
	case failed != nil:
		_, _ = fmt.Fprintf(stderr, "The list is incomplete; it goes on with %s %s\n", p.Flag, p.next)
	case p.next != "" && output != AsJSON:
		_, _ = fmt.Fprintf(stderr, "There are more: %s %s, or --all\n", p.Flag, p.next)
	}
	return failed
}

// print prints a page as JSON, with all items and the position of the next page.
func (p *Pages) print(w io.Writer, page map[string]json.RawMessage) error {
	items, err := json.Marshal(append([]json.RawMessage{}, p.items...))
	if err != nil {
		return fmt.Errorf("write the %s: %w", p.Key, err)
	}
	page[p.Key] = items
	delete(page, p.Next)
	if p.next != "" {
		page[p.Next], err = json.Marshal(p.next)
		if err != nil {
			return fmt.Errorf("write the %s: %w", p.Key, err)
		}
	}
	text, err := json.Marshal(page)
	if err != nil {
		return fmt.Errorf("write the %s: %w", p.Key, err)
	}
	return JSON(w, text)
}
