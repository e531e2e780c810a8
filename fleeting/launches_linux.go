package fleeting

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-run/drover/internal/durable"
)

// The pauses between launches of a plugin that does not start. Each launch calls
// Init, which makes calls to the cloud.
const (
	firstPause = time.Second
	maxPause   = time.Minute
	// launchesFile keeps them in the group's directory for the next host.
	launchesFile = "launches.json"
)

// launches counts the failed launches of a plugin in a row.
type launches struct {
	Failures int       `json:"failures"`
	RetryAt  time.Time `json:"retry_at"`
	Error    string    `json:"error"`
	// Unavailable reports that the last launch failed with ErrUnavailable.
	Unavailable bool `json:"unavailable,omitempty"`
	// Binary and Settings are the digests of the plugin that failed: another one
	// has no pause.
	Binary   string `json:"binary"`
	Settings string `json:"settings"`
}

// readLaunches returns the failed launches of a plugin by this host or an
// earlier one.
func readLaunches(dir, binary, settings string) (launches, error) {
	var l launches
	text, err := os.ReadFile(filepath.Join(dir, launchesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	if err != nil {
		return launches{}, fmt.Errorf("read the failed launches of the plugin: %w", err)
	}
	if l.Binary != binary || l.Settings != settings {
		return launches{}, nil
	}
	return l, nil
}

// write keeps the failed launches for the next host.
func (l launches) write(dir string) error {
	path := filepath.Join(dir, launchesFile)
	if l.Failures == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forget the failed launches of the plugin: %w", err)
		}
		return nil
	}
	text, err := json.Marshal(l)
	if err == nil {
		err = durable.WriteFile(path, text)
	}
	if err != nil {
		return fmt.Errorf("write the failed launches of the plugin: %w", err)
	}
	return nil
}

// failed returns the launches after another failure.
func (l launches) failed(err error, now time.Time) launches {
	l.Failures++
	l.RetryAt = now.Add(launchPause(l.Failures, rand.Int64N))
	l.Error, l.Unavailable = err.Error(), errors.Is(err, ErrUnavailable)
	return l
}

// launchPause returns the pause after a number of failed launches in a row. It
// is up to a quarter shorter, at random, so that the plugins of several groups
// do not call a cloud at the same time.
func launchPause(failures int, random func(int64) int64) time.Duration {
	pause := min(maxPause, firstPause<<min(failures-1, 6)) // the seventh exceeds maxPause
	return pause - time.Duration(random(int64(pause/4)))
}

// pending returns the error of calls before the next launch, or nil. A try that is further
// away than any pause was planned by a clock that was wrong.
func (l launches) pending(now time.Time) error {
	if l.Failures == 0 || !now.Before(l.RetryAt) || l.RetryAt.Sub(now) > maxPause {
		return nil
	}
	return &PauseError{At: l.RetryAt, Err: earlierError{text: l.Error, unavailable: l.Unavailable}}
}

// earlierError is the error of an earlier launch.
type earlierError struct {
	text        string
	unavailable bool
}

func (f earlierError) Error() string { return f.text }

func (f earlierError) Is(target error) bool { return f.unavailable && target == ErrUnavailable }
