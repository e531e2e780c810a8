package contract

import "github.com/drover-run/drover/run"

// ActivityRemoveEvents removes old events, a bounded number at a time.
const ActivityRemoveEvents = "remove-events"

// RemoveEventsInput is the input of remove-events: which events are kept,
// those that both allow.
type RemoveEventsInput struct {
	MaxAge run.Duration `json:"max_age,omitempty"` // 0 is no limit; likewise below
	Newest int64        `json:"newest,omitempty"`
}

// RemoveEventsResult is the result of remove-events.
type RemoveEventsResult struct {
	Removed int  `json:"removed"`
	More    bool `json:"more,omitempty"` // to be called again at once
}
