package controller

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/fleeting/scaling"
	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

// memory is the state that one round hands to the next; the records keep it.
type memory struct {
	Scaling  scaling.Memory `json:"scaling"`
	Failures int            `json:"failures,omitempty"` // consecutive
	FailedAt time.Time      `json:"failed_at,omitzero"`
	LastWhy  string         `json:"last_why,omitempty"` // of the most recent failure
	Refusals int            `json:"refusals,omitempty"` // consecutive requests that the plugin refused and that created nothing
	Refusal  string         `json:"refusal,omitempty"`  // the plugin's last one

	// Revision and Since are those of the fleet when the failures were counted.
	Revision int       `json:"revision,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	// Completed is the last revision whose rollout was complete.
	Completed int `json:"completed,omitempty"`
}

// observeRevision forgets the failures of an earlier revision, and those before
// an operator resumed the rollout.
func (m *memory) observeRevision(f run.Fleet) {
	if m.Revision == f.Revision && m.Since.Equal(f.RolloutSince) {
		return
	}
	if m.Revision != 0 {
		m.Failures, m.FailedAt, m.LastWhy, m.Refusals, m.Refusal = 0, time.Time{}, "", 0, ""
	}
	m.Revision, m.Since = f.Revision, f.RolloutSince
}

// refusalsRestart is the number of consecutive refusals after which the plugin
// is restarted before each request. Only Init creates a cloud resource again
// that was deleted, such as a key.
const refusalsRestart = 2

// maxWhy bounds the message of a failure, which becomes part of other messages,
// in bytes.
const maxWhy = 300

// recordFailure records that an instance did not start, or did not become an executor.
// Instances that were requested before the last failure had the same cause:
// they do not lengthen the pause.
func (m *memory) recordFailure(now, asked time.Time, why string) {
	if asked.Before(m.Since) { // with the settings of an earlier revision
		return
	}
	m.LastWhy = truncate.String(why, maxWhy, "...")
	if m.Failures > 0 && !asked.After(m.FailedAt) {
		return
	}
	m.Failures++
	m.FailedAt = now
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

// countRefusals counts the requests that the plugin refused and that created nothing.
// why is the refusal as a message. It reports whether the count has changed.
func (m *memory) countRefusals(refusal error, created int, why string) bool {
	previous := m.Refusals
	_, answered := errors.AsType[*fleeting.CallError](refusal)
	switch {
	case refusal == nil || created > 0:
		m.Refusals, m.Refusal = 0, ""
	case answered:
		m.Refusals++
		m.Refusal = truncate.String(why, maxWhy, "...")
	}
	return m.Refusals != previous
}
