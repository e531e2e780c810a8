// Package fleetingtest is a conformance test for fleeting plugins: it makes all
// calls of a host to any plugin binary, with the faults that a host must
// handle. It creates instances and deletes them.
package fleetingtest

import (
	"context"
	"errors"
	"time"

	"github.com/drover-run/drover/fleeting"
)

// Outcome is the result of a step.
type Outcome string

// The outcomes. A Note is a deviation that hosts can handle.
const (
	OK      Outcome = "ok"
	Failed  Outcome = "failed"
	Note    Outcome = "note"
	Skipped Outcome = "skipped"
)

// Step is one step of the test.
type Step struct {
	Name    string        `json:"name"`
	Outcome Outcome       `json:"outcome"`
	Detail  string        `json:"detail,omitempty"`
	Took    time.Duration `json:"took"`
}

// Options configure the test.
type Options struct {
	Plugin fleeting.Options // its Dir is not used
	// Timeout is how long instances may take to start and to be deleted; 0:
	// five minutes.
	Timeout time.Duration
	// InMemory reports that the plugin is known to lose its instances when its
	// process exits, because it keeps them in memory.
	InMemory bool
	// OnStep, if set, is called with each finished step.
	OnStep func(Step)
}

const defaultTimeout = 5 * time.Minute

// ErrFailed is returned for a plugin that failed a step.
var ErrFailed = errors.New("the plugin failed the check")

// TB is the part of testing.TB that Run uses.
type TB interface {
	Helper()
	Context() context.Context
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
}

// Run tests a plugin, and fails the test for every failed step.
func Run(t TB, o Options) []Step {
	t.Helper()
	steps, err := Check(t.Context(), o)
	for _, s := range steps {
		t.Logf("%-7s %-60s %s", s.Outcome, s.Name, s.Detail)
		if s.Outcome == Failed {
			t.Errorf("%s: %s", s.Name, s.Detail)
		}
	}
	if err != nil && !errors.Is(err, ErrFailed) {
		t.Errorf("check the plugin: %v", err)
	}
	return steps
}
