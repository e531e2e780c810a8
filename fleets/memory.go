package fleets

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/fleeting/scaling"
)

// memory is what one round tells the next; the records keep it.
type memory struct {
	Scaling  scaling.Memory `json:"scaling"`
	Failures int            `json:"failures,omitempty"` // in a row
	FailedAt time.Time      `json:"failed_at,omitzero"`
	LastWhy  string         `json:"last_why,omitempty"` // of the last of them
	Refusals int            `json:"refusals,omitempty"` // requests in a row that the plugin refused and nothing came of
}

// refusalsRestart is after how many refusals in a row the plugin is started
// again before each request: where what it made in the cloud was removed, such
// as a key, only Init makes it again.
const refusalsRestart = 2

// failed notes that an instance did not come, or did not become an executor.
// Those that were asked for before the last failure were in the same trouble:
// they do not make the pause longer.
func (m *memory) failed(now, asked time.Time, why string) {
	m.LastWhy = clip(why)
	if m.Failures > 0 && !asked.After(m.FailedAt) {
		return
	}
	m.Failures++
	m.FailedAt = now
}

// clip shortens a message that others are made of.
func clip(text string) string {
	const most = 300
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "..."
	}
	return text
}

func readMemory(text string) (m memory) {
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return memory{}
	}
	return m
}

func (m memory) text() string {
	text, err := json.Marshal(m)
	if err != nil {
		return ""
	}
	return string(text)
}

// note counts the requests that the plugin refused and that nothing came of. It
// reports whether that has changed.
func (m *memory) note(refusal error, came int) bool {
	was := m.Refusals
	_, said := errors.AsType[*fleeting.CallError](refusal)
	switch {
	case refusal == nil || came > 0:
		m.Refusals = 0
	case said:
		m.Refusals++
	}
	return m.Refusals != was
}

// pauseAfter is how long to wait after failures, where the policy does not say.
func pauseAfter(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	return min(5*time.Minute, 5*time.Second<<min(failures-1, 6))
}
