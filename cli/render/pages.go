package render

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
)

// Pages collects the items of several pages, to print them as one page.
type Pages struct {
	Key   string // of the items
	Next  string // the key with the position of the next page
	first json.RawMessage
	pages []map[string]json.RawMessage
	items []json.RawMessage
}

// Read reads pages until they have limit items, and with all to the last one. page reads
// the next page, with at most limit items, and returns it and the position of the page
// after it. A page may be short or empty, also before the last.
func (p *Pages) Read(limit int, all bool, page func(limit int) (raw json.RawMessage, next string, err error)) error {
	for left := limit; ; {
		raw, next, err := page(left)
		if err != nil {
			return err
		}
		if err := p.add(raw); err != nil {
			return fmt.Errorf("read a page of %s: %w", p.Key, err)
		}
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

// Print prints all items as JSON.
func (p *Pages) Print(w io.Writer) error {
	return p.print(w, map[string]json.RawMessage{})
}

// PrintPage prints all items as one page: what the first page has beside them, and the
// position of the next page from the last one.
func (p *Pages) PrintPage(w io.Writer) error {
	if len(p.pages) == 1 {
		return JSON(w, p.first)
	}
	page := maps.Clone(p.pages[0])
	if next, ok := p.pages[len(p.pages)-1][p.Next]; ok {
		page[p.Next] = next
	} else {
		delete(page, p.Next)
	}
	return p.print(w, page)
}

func (p *Pages) print(w io.Writer, page map[string]json.RawMessage) error {
	items, err := json.Marshal(append([]json.RawMessage{}, p.items...))
	if err != nil {
		return fmt.Errorf("write the %s: %w", p.Key, err)
	}
	page[p.Key] = items
	text, err := json.Marshal(page)
	if err != nil {
		return fmt.Errorf("write the %s: %w", p.Key, err)
	}
	return JSON(w, text)
}
