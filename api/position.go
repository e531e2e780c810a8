package api

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// EventPosition is a position in the sequence of events: "now", or the number of an
// event.
type EventPosition string

// MarshalJSON implements json.Marshaler: a number is written as one.
func (p EventPosition) MarshalJSON() ([]byte, error) {
	if n, err := strconv.ParseInt(string(p), 10, 64); err == nil {
		return strconv.AppendInt(nil, n, 10), nil
	}
	return json.Marshal(string(p))
}

// UnmarshalJSON implements json.Unmarshaler: it accepts strings and numbers.
func (p *EventPosition) UnmarshalJSON(data []byte) error {
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return fmt.Errorf("read an event position: %w", err)
	}
	switch v := v.(type) {
	case string:
		*p = EventPosition(v)
	case nil:
	default:
		*p = EventPosition(data) // the validation of the webhook checks the value
	}
	return nil
}
