// Package fleetingtest examines fleeting plugins: it drives any plugin binary
// through all that a host asks of one, with the faults that a host must live
// through. Instances are made for it and deleted.
package fleetingtest

import (
	"context"
	"errors"
	"time"

	"github.com/drover-run/drover/fleeting"
)

// Outcome is how a step of the examination went.
type Outcome string

// The outcomes. A note is about something that hosts can live with.
const (
	OK      Outcome = "ok"
	Failed  Outcome = "failed"
	Note    Outcome = "note"
	Skipped Outcome = "skipped"
)

// Step is one thing that was asked of the plugin.
type Step struct {
	Name    string        `json:"name"`
	Outcome Outcome       `json:"outcome"`
	Detail  string        `json:"detail,omitempty"`
	Took    time.Duration `json:"took"`
}

// Options say what is examined and how.
type Options struct {
	Plugin fleeting.Options // its Dir is not used
	// Patience is how long instances may take to run, and to go; 0: five minutes.
	Patience time.Duration
	// Forgets says that the plugin is known to lose its instances when its
	// process ends, as those do that keep them in memory.
	Forgets bool
	// Tell, if set, is called with each step when it is over.
	Tell func(Step)
}

const defaultPatience = 5 * time.Minute

// ErrFailed says that a plugin did not pass.
var ErrFailed = errors.New("the plugin failed")

// TB is what Run needs of a test.
type TB interface {
	Helper()
	Context() context.Context
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
}

// Run examines a plugin, and fails the test with every step that failed.
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
		t.Errorf("examining the plugin: %v", err)
	}
	return steps
}
