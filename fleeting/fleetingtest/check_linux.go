package fleetingtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/internal/retry"
)

// unknown is an id that no instance has.
const unknown = "drover-there-is-no-such-instance"

// instanceCount is the number of instances that the check creates: one to delete, and
// one that must stay.
const instanceCount = 2

// checker is the state of a running check.
type checker struct {
	o     Options
	steps []Step
	probe *fleeting.Probe
	dir   string
	info  fleeting.Info
	// refusal is the error of a plugin that refuses its configuration.
	refusal error

	existing map[string]fleeting.State // instances that the check did not create
	created  []string
}

// Check tests a plugin. It returns ErrFailed if a step failed. It always
// deletes the instances that it created, as far as the plugin can.
func Check(ctx context.Context, o Options) (steps []Step, err error) {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	dir, err := os.MkdirTemp("", "drover-kit-")
	if err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	e := &checker{o: o, dir: dir, existing: map[string]fleeting.State{}}
	defer func() { err = errors.Join(err, e.cleanUp(context.WithoutCancel(ctx))) }()
	for _, s := range []struct {
		name     string
		do       func(context.Context) (string, error)
		required bool // later steps depend on it
	}{
		{"it starts and completes the handshake", e.launch, true},
		{"it serves the calls of the protocol", e.calls, false},
		{"Init describes the group", e.initialise, true},
		{"Update lists the existing instances", e.listExisting, true},
		{"a second Init returns the same", e.initialiseAgain, false},
		{"ConnectInfo of an unknown instance is an error", e.connectUnknown, false},
		{"Heartbeat of an unknown instance does no harm", e.heartbeatUnknown, false},
		{"Decrease of an unknown instance does no harm", e.decreaseUnknown, false},
		{"Increase creates instances, which Update lists", e.increase, true},
		{"they run", e.awaitRunning, true},
		{"ConnectInfo returns an address", e.connect, false},
		{"Heartbeat reports them healthy", e.heartbeat, false},
		{"Suspend and Resume, if it has the capability", e.suspend, false},
		{"it may be killed: another process lists the same instances", e.restart, true},
		{"Decrease of a known and an unknown instance", e.decreasePartly, false},
		{"the known one is deleted, and the other stays", e.awaitOneGone, false},
		{"it may be killed after Decrease: the instance is deleted", e.killAfterDecrease, false},
		{"Decrease of an instance that is gone does no harm", e.decreaseGone, false},
		{"Shutdown", e.shutdown, false},
	} {
		if err := ctx.Err(); err != nil {
			return e.steps, context.Cause(ctx)
		}
		if !e.step(ctx, s.name, s.do) && s.required {
			break
		}
	}
	if e.refusal != nil {
		return e.steps, fmt.Errorf("%w: %w", ErrFailed, e.refusal)
	}
	for _, s := range e.steps {
		if s.Outcome == Failed {
			return e.steps, ErrFailed
		}
	}
	return e.steps, nil
}

// Errors of a step whose outcome is neither Passed nor Failed.
var (
	errNote    = errors.New("note")
	errSkipped = errors.New("skipped")
)

func note(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errNote, fmt.Sprintf(format, args...))
}

func (e *checker) step(ctx context.Context, name string, do func(context.Context) (string, error)) bool {
	began := time.Now()
	s := Step{Name: name, Outcome: OK}
	var err error
	s.Detail, err = do(ctx)
	s.Took = time.Since(began)
	switch {
	case err == nil:
	case errors.Is(err, errNote):
		s.Outcome, s.Detail = Note, strings.TrimPrefix(err.Error(), errNote.Error()+": ")
	case errors.Is(err, errSkipped):
		s.Outcome, s.Detail = Skipped, strings.TrimPrefix(err.Error(), errSkipped.Error()+": ")
	default:
		s.Outcome, s.Detail = Failed, err.Error()
		// Add the output of the plugin, and launch another process for the next
		// step.
		if e.probe != nil && !e.probe.Alive() {
			s.Detail += "; it exited: " + strings.TrimSpace(e.probe.LogTail())
			if relaunchErr := e.relaunch(ctx); relaunchErr != nil {
				s.Detail += "; relaunch: " + relaunchErr.Error()
			}
		}
	}
	e.steps = append(e.steps, s)
	if e.o.OnStep != nil {
		e.o.OnStep(s)
	}
	return s.Outcome != Failed
}

// relaunch replaces the process by another one, and initialises it.
func (e *checker) relaunch(ctx context.Context) error {
	if e.probe != nil {
		if err := e.probe.Kill(ctx); err != nil {
			return fmt.Errorf("end the plugin: %w", err)
		}
		e.probe = nil
	}
	if _, err := e.launch(ctx); err != nil {
		return err
	}
	_, err := e.probe.Init(ctx)
	return err
}

func (e *checker) launch(context.Context) (string, error) {
	o := e.o.Plugin
	o.Dir = e.dir
	var err error
	e.probe, err = fleeting.Launch(o) //nolint:contextcheck // logs belong to no call
	return "", err
}

func (e *checker) calls(ctx context.Context) (string, error) {
	serves, missing, err := e.probe.Calls(ctx)
	switch {
	case err != nil:
		return "", err
	case len(serves) == 0:
		return "", fmt.Errorf("%w: no gRPC reflection", errSkipped)
	}
	for _, name := range []string{"Init", "Update", "Increase", "Decrease", "ConnectInfo"} {
		if slices.Contains(missing, name) {
			return "", fmt.Errorf("it lacks %s", strings.Join(missing, " "))
		}
	}
	if len(missing) > 0 {
		return "", note("of an older protocol: it lacks %s", strings.Join(missing, " "))
	}
	return "", nil
}

func (e *checker) initialise(ctx context.Context) (string, error) {
	info, err := e.probe.Init(ctx)
	if said, ok := errors.AsType[*fleeting.CallError](err); ok && said.RefusesConfig() {
		e.refusal = said
	}
	if err != nil {
		return "", err
	}
	e.info = info
	if info.ID == "" {
		return "", errors.New("the group has no id")
	}
	if info.MaxSize < instanceCount {
		return "", fmt.Errorf("the check needs %d instances; the group allows at most %d", instanceCount, info.MaxSize)
	}
	return fmt.Sprintf("%s, at most %d, version %q, capabilities %v", info.ID, info.MaxSize, info.Version, info.Capabilities), nil
}

func (e *checker) initialiseAgain(ctx context.Context) (string, error) {
	info, err := e.probe.Init(ctx)
	if err != nil {
		return "", err
	}
	if info.ID != e.info.ID || info.MaxSize != e.info.MaxSize {
		return "", fmt.Errorf("it returned %s, at most %d", info.ID, info.MaxSize)
	}
	_, err = e.probe.Update(ctx)
	return "", err
}

func (e *checker) listExisting(ctx context.Context) (string, error) {
	var err error
	e.existing, err = e.states(ctx)
	if err != nil || len(e.existing) == 0 {
		return "", err
	}
	return "", note("%d existing instances are left unchanged", len(e.existing))
}

// states returns the instances by id. It rejects listings with duplicate ids.
func (e *checker) states(ctx context.Context) (map[string]fleeting.State, error) {
	all, err := e.probe.Update(ctx)
	if err != nil {
		return nil, err
	}
	of := map[string]fleeting.State{}
	for _, i := range all {
		if _, twice := of[i.ID]; twice || i.ID == "" {
			return nil, fmt.Errorf("it lists %q twice, or without an id", i.ID)
		}
		of[i.ID] = i.State
	}
	return of, nil
}

// present reports whether an instance exists or is being created, not deleted.
func present(s fleeting.State) bool {
	switch s {
	case fleeting.StateDeleting, fleeting.StateDeleted, fleeting.StateTimeout, "":
		return false
	default:
		return true
	}
}

// await lists the instances until ok accepts the listing.
func (e *checker) await(ctx context.Context, accept func(map[string]fleeting.State) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, e.o.Timeout, fmt.Errorf("not within %s", e.o.Timeout))
	defer cancel()
	pauses := retry.Doubling(20*time.Millisecond, time.Second)
	for {
		seen, err := e.states(ctx)
		if err != nil {
			return err
		}
		if accept(seen) {
			return nil
		}
		if err := retry.Sleep(ctx, pauses.NextBackOff()); err != nil {
			return fmt.Errorf("%w: Update returned %v", err, statesOf(seen, e.created))
		}
	}
}

func statesOf(seen map[string]fleeting.State, created []string) map[string]fleeting.State {
	of := map[string]fleeting.State{}
	for _, id := range created {
		of[id] = seen[id]
	}
	return of
}

// cleanUp deletes the remaining instances of the check.
func (e *checker) cleanUp(ctx context.Context) error {
	if e.probe == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, e.o.Timeout)
	defer cancel()
	return errors.Join(e.deleteCreated(ctx), e.probe.Kill(ctx))
}

func (e *checker) deleteCreated(ctx context.Context) error {
	if len(e.created) == 0 {
		return nil // the plugin may not even be initialised
	}
	seen, err := e.states(ctx)
	if err != nil {
		return err
	}
	var left []string
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		if _, old := e.existing[id]; !old && present(seen[id]) && slices.Contains(e.created, id) {
			left = append(left, id)
		}
	}
	if len(left) == 0 {
		return nil
	}
	if _, err := e.probe.Decrease(ctx, left); err != nil {
		return fmt.Errorf("not deleted: %v: %w", left, err)
	}
	return nil
}
