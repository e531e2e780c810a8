//go:build linux

package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"
)

// The files of an instance.
const (
	instanceFile = "instance.json"
	lockFile     = "lock"
	startedFile  = "started.json"
	addressFile  = "address"
	stopFile     = "stop"
	endedFile    = "ended.json"
	logFile      = "log"
)

// A supervisor that has not started within this time never will: the plugin was
// killed before it could start one.
const supervisorTimeout = 30 * time.Second

type created struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
}

type started struct {
	PID int       `json:"pid"` // of the command
	At  time.Time `json:"at"`
}

type ended struct {
	At  time.Time `json:"at"`
	Why string    `json:"why"`
}

// observed is the state that the files of an instance record.
type observed struct {
	state   provider.State
	ended   ended
	started started
}

// inspect reads the state of the instance in dir. If the supervisor was killed, it
// records the end.
func inspect(dir string, needsAddress bool) (observed, error) {
	var s observed
	if read(dir, endedFile, &s.ended) == nil {
		s.state = provider.StateDeleted
		return s, nil
	}
	supervised, err := isSupervised(dir)
	if err != nil {
		return s, err
	}
	stopping, err := exists(dir, stopFile)
	if err != nil {
		return s, err
	}
	startErr := read(dir, startedFile, &s.started)
	if !supervised {
		return inspectUnsupervised(dir, s, stopping)
	}
	addressed := true
	if needsAddress {
		if addressed, err = exists(dir, addressFile); err != nil {
			return s, err
		}
	}
	switch {
	case stopping:
		s.state = provider.StateDeleting
	case startErr != nil || !addressed:
		s.state = provider.StateCreating
	default:
		s.state = provider.StateRunning
	}
	return s, nil
}

// isSupervised reports whether the instance's supervisor runs.
func isSupervised(dir string) (bool, error) {
	lock := flock.New(filepath.Join(dir, lockFile))
	defer func() { _ = lock.Close() }()
	// The lock is shared, so that concurrent readers do not take each other for
	// a supervisor.
	free, err := lock.TryRLock()
	if err != nil {
		return false, fmt.Errorf("check a supervisor's lock: %w", err)
	}
	return !free, nil
}

// inspectUnsupervised distinguishes three instances without a supervisor: it has not
// started yet, it was killed, or it has just ended.
func inspectUnsupervised(dir string, s observed, stopping bool) (observed, error) {
	var c created
	if err := read(dir, instanceFile, &c); err != nil {
		return s, err
	}
	if s.started.PID == 0 && !stopping && time.Since(c.At) < supervisorTimeout {
		s.state = provider.StateCreating
		return s, nil
	}
	lock := flock.New(filepath.Join(dir, lockFile))
	defer func() { _ = lock.Close() }()
	locked, err := lock.TryLock()
	if err != nil {
		return s, fmt.Errorf("lock an instance: %w", err)
	}
	if !locked { // a supervisor has started, or another process reads: the next look decides
		s.state = provider.StateCreating
		if stopping || s.started.PID != 0 {
			s.state = provider.StateDeleting
		}
		return s, nil
	}
	s.state = provider.StateDeleted
	if read(dir, endedFile, &s.ended) == nil {
		return s, nil
	}
	s.ended = ended{At: time.Now(), Why: "its supervisor was killed"}
	if s.started.PID == 0 {
		s.ended.Why = "never started"
	}
	return s, write(dir, endedFile, s.ended)
}

// supervisorPID reads the pid that the supervisor wrote into its lock file; it
// returns 0 before that.
func supervisorPID(dir string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, lockFile))
	if err != nil {
		return 0, fmt.Errorf("read a supervisor's pid: %w", err)
	}
	if len(text) == 0 {
		return 0, nil
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return 0, fmt.Errorf("read a supervisor's pid: %q is not a pid", text)
	}
	return pid, nil
}

func exists(dir, file string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, file))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("check an instance: %w", err)
	}
	return true, nil
}

func read(dir, file string, v any) error {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return fmt.Errorf("read an instance: %w", err)
	}
	return nil
}

func write(dir, file string, v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		err = renameio.WriteFile(filepath.Join(dir, file), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
