package contract

import "github.com/drover-run/drover/run"

// ActivityRemoveEvents removes old events, for a bounded time.
const ActivityRemoveEvents = "remove-events"

// RemoveEventsInput is the input of remove-events. An event is kept only if
// both limits allow it.
type RemoveEventsInput struct {
	MaxAge run.Duration `json:"max_age,omitempty"` // 0 is no limit; likewise below
	Newest int64        `json:"newest,omitempty"`
	// PerSecond is how many hundreds are removed in a second; 0 is no bound.
	PerSecond int `json:"per_second,omitempty"`
}

// RemoveEventsResult is the result of remove-events.
type RemoveEventsResult struct {
	Removed int  `json:"removed"`
	More    bool `json:"more,omitempty"` // more is left; call it again at once
}
