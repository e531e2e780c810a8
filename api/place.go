package api

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// EventPlace is a position in the sequence of events: "now", or the number of an
// event.
type EventPlace string

// MarshalJSON implements json.Marshaler: a number is written as one.
func (p EventPlace) MarshalJSON() ([]byte, error) {
	if n, err := strconv.ParseInt(string(p), 10, 64); err == nil {
		return strconv.AppendInt(nil, n, 10), nil
	}
	return json.Marshal(string(p))
}

// UnmarshalJSON implements json.Unmarshaler: it accepts strings and numbers.
func (p *EventPlace) UnmarshalJSON(data []byte) error {
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return fmt.Errorf("read an event position: %w", err)
	}
	switch v := v.(type) {
	case string:
		*p = EventPlace(v)
	case nil:
	default:
		*p = EventPlace(data) // the validation of the webhook checks the value
	}
	return nil
}
