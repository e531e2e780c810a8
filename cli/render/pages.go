package render

import (
	"encoding/json"
	"fmt"
	"io"
)

// Pages collects the items of several pages, to print them as one page.
type Pages struct {
	Key   string // of the items
	items []json.RawMessage
}

// Add adds the items of a page, which is a response of the gateway.
func (p *Pages) Add(page []byte) error {
	var fields map[string]json.RawMessage
	var items []json.RawMessage
	err := json.Unmarshal(page, &fields)
	if err == nil {
		err = json.Unmarshal(fields[p.Key], &items)
	}
	if err != nil {
		return fmt.Errorf("read a page of %s: %w", p.Key, err)
	}
	p.items = append(p.items, items...)
	return nil
}

// Print prints all items as JSON.
func (p *Pages) Print(w io.Writer) error {
	all, err := json.Marshal(map[string]any{p.Key: append([]json.RawMessage{}, p.items...)})
	if err != nil {
		return fmt.Errorf("write the %s: %w", p.Key, err)
	}
	return JSON(w, all)
}
