package run

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/drover-run/drover/internal/jsonfault"
	"github.com/drover-run/drover/internal/truncate"
)

// Variables of a task that was created from an item of a list.
const (
	VariableItem      = "DROVER_ITEM" // a string unchanged, any other value as JSON
	VariableItemIndex = "DROVER_ITEM_INDEX"
)

// Foreach expands a task to one task for each item of a list.
type Foreach struct {
	List string `json:"list"` // refers to an output that is a JSON list
	// Min is how many items the list has at least; with fewer the task fails.
	Min int `json:"min,omitempty"`
}

// MarshalJSON implements json.Marshaler. A foreach without a minimum is the text of
// its list, the only form that versions without Min can read.
func (f Foreach) MarshalJSON() ([]byte, error) {
	if f.Min == 0 {
		return json.Marshal(f.List)
	}
	type fields Foreach
	return json.Marshal(fields(f))
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *Foreach) UnmarshalJSON(data []byte) error {
	var list string
	if json.Unmarshal(data, &list) == nil {
		*f = Foreach{List: list}
		return nil
	}
	type fields Foreach
	return json.Unmarshal(data, (*fields)(f))
}

// ItemName returns the name of the task for the i-th item of the list of a
// task.
func ItemName(task string, i int) string { return task + "[" + strconv.Itoa(i) + "]" }

// ItemAxis returns the variables of the task for an item.
func ItemAxis(item string, i int) map[string]string {
	return map[string]string{VariableItem: item, VariableItemIndex: strconv.Itoa(i)}
}

// Items returns the items of the list; room is how many more tasks the run may
// have. If there is no valid list, the error says why, with the code of outputs or
// CodeInvalid.
func (f Foreach) Items(outputs Outputs, room int) ([]string, error) {
	text, err := ResolveOutputs(f.List, outputs)
	if err != nil {
		return nil, Errorf(CodeOf(err), "foreach: %w", err)
	}
	var list []json.RawMessage
	subject := "the list " + strings.TrimSpace(truncate.String(f.List, MaxNameLength, "…")) + " of foreach"
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		var value json.RawMessage
		if json.Unmarshal([]byte(text), &value) == nil {
			return nil, Errorf(CodeInvalid, "%s is %s and not a list", subject, kindOf(value))
		}
		return nil, Errorf(CodeInvalid, "%s is not JSON: %s", subject, jsonfault.Explain(err))
	}
	switch {
	case list == nil:
		return nil, Errorf(CodeInvalid, "%s is null and not a list", subject)
	case len(list) == 0 && f.Min > 0:
		return nil, Errorf(CodeInvalid, "%s is an empty list; it must have %d to %d items", subject, f.Min, MaxForeach)
	case len(list) < f.Min || len(list) > MaxForeach:
		return nil, Errorf(CodeInvalid, "%s has %d items; it must have %d to %d", subject, len(list), f.Min, MaxForeach)
	case len(list) > room:
		return nil, Errorf(CodeInvalid, "%s has %d items, and the run has room for %d more tasks: the limit is %d", subject, len(list), room, MaxTasks)
	}
	items := make([]string, len(list))
	for i, raw := range list {
		if items[i], err = itemText(raw); err != nil {
			return nil, Errorf(CodeInternal, "read item %d: %w", i, err)
		}
		switch {
		case len(VariableItem)+len("=")+len(items[i]) >= MaxVariableBytes:
			return nil, Errorf(CodeInvalid, "item %d of %s has %d bytes; it must have less than %d", i, subject, len(items[i]), MaxVariableBytes-len(VariableItem)-1)
		case strings.Contains(items[i], "\x00"):
			return nil, Errorf(CodeInvalid, "item %d of %s has a NUL byte", i, subject)
		}
	}
	return items, nil
}

// itemText returns a string unchanged, and any other value as JSON.
func itemText(raw json.RawMessage) (string, error) {
	if raw[0] == '"' {
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	}
	var out bytes.Buffer
	err := json.Compact(&out, raw)
	return out.String(), err
}

func kindOf(raw json.RawMessage) string {
	switch raw[0] {
	case '{':
		return "an object"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	}
	return "a number"
}
