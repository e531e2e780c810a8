package fleetingtest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/drover-run/drover/fleeting"
)

// answered reports whether the plugin itself returned an error, and survived.
func answered(err error) bool {
	said := (*fleeting.CallError)(nil)
	return errors.As(err, &said)
}

func (e *exam) connectUnknown(ctx context.Context) (string, error) {
	_, err := e.probe.ConnectInfo(ctx, unknown)
	switch {
	case err == nil:
		return "", errors.New("it returned an address for an instance that does not exist")
	case answered(err):
		return err.Error(), nil
	}
	return "", err //nolint:wrapcheck // the text is complete
}

func (e *exam) heartbeatUnknown(ctx context.Context) (string, error) {
	err := e.probe.Heartbeat(ctx, unknown)
	switch {
	case err == nil:
		return "", note("it reports an instance healthy that does not exist: it does not check health")
	case errors.Is(err, fleeting.ErrNotSupported):
		return "", note("it does not serve Heartbeat")
	case answered(err):
		return err.Error(), nil
	}
	return "", err //nolint:wrapcheck // the text is complete
}

func (e *exam) decreaseUnknown(ctx context.Context) (string, error) {
	gone, err := e.probe.Decrease(ctx, []string{unknown})
	if err != nil && !answered(err) {
		return "", err //nolint:wrapcheck // the text is complete
	}
	seen, listErr := e.states(ctx)
	if listErr != nil {
		return "", listErr
	}
	for id, state := range e.before {
		if present(state) && !present(seen[id]) {
			return "", fmt.Errorf("%s was deleted", id)
		}
	}
	if err != nil {
		return "", note("%v", err)
	}
	return fmt.Sprintf("it returned %v", gone), nil
}

func (e *exam) increase(ctx context.Context) (string, error) {
	n, err := e.probe.Increase(ctx, wanted)
	if err == nil && n != wanted {
		err = fmt.Errorf("it reports that it created %d of %d", n, wanted)
	}
	if err != nil && !e.probe.Alive() {
		err = fmt.Errorf("%w; it exited: %s", err, strings.TrimSpace(e.probe.LastWords()))
		if again := e.again(ctx); again != nil {
			return "", fmt.Errorf("%w; relaunch: %w", err, again)
		}
	}
	// The check owns them although the call failed.
	listed := e.await(ctx, func(seen map[string]fleeting.State) bool {
		e.ours = nil
		for id, state := range seen {
			if _, old := e.before[id]; !old && state != fleeting.StateDeleted {
				e.ours = append(e.ours, id)
			}
		}
		return len(e.ours) >= wanted || err != nil
	})
	if err == nil {
		err = listed
	}
	if err != nil {
		return "", fmt.Errorf("%w; %d of %d exist", err, len(e.ours), wanted)
	}
	if len(e.ours) > wanted {
		return "", fmt.Errorf("there are %d instead of %d", len(e.ours), wanted)
	}
	return strings.Join(e.ours, " "), nil
}

func (e *exam) awaitRunning(ctx context.Context) (string, error) {
	return "", e.await(ctx, func(seen map[string]fleeting.State) bool {
		for _, id := range e.ours {
			if seen[id] != fleeting.StateRunning {
				return false
			}
		}
		return true
	})
}

func (e *exam) connect(ctx context.Context) (string, error) {
	var addresses []string
	for _, id := range e.ours {
		info, err := e.probe.ConnectInfo(ctx, id)
		if err != nil {
			return "", err //nolint:wrapcheck // the text is complete
		}
		if info.InternalAddr == "" && info.ExternalAddr == "" {
			return "", fmt.Errorf("%s has no address", id)
		}
		addresses = append(addresses, fmt.Sprintf("%s@%s|%s", info.Username, info.InternalAddr, info.ExternalAddr))
	}
	return strings.Join(addresses, " "), nil
}

func (e *exam) heartbeat(ctx context.Context) (string, error) {
	for _, id := range e.ours {
		err := e.probe.Heartbeat(ctx, id)
		if errors.Is(err, fleeting.ErrNotSupported) {
			return "", note("it does not serve Heartbeat")
		}
		if err != nil {
			return "", err //nolint:wrapcheck // the text is complete
		}
	}
	return "", nil
}

func (e *exam) suspend(ctx context.Context) (string, error) {
	id := e.ours[0]
	if !e.info.Can(fleeting.CapabilitySuspendResume) {
		_, err := e.probe.Suspend(ctx, []string{id})
		if err != nil && !answered(err) && !errors.Is(err, fleeting.ErrNotSupported) {
			return "", err //nolint:wrapcheck // the text is complete
		}
		if err == nil {
			return "", note("it suspends, but does not announce the capability")
		}
		return "", fmt.Errorf("%w: it does not announce the capability", errSkipped)
	}
	done, err := e.probe.Suspend(ctx, []string{id})
	if err != nil || len(done) != 1 {
		return "", fmt.Errorf("Suspend returned %v, %w", done, err)
	}
	if err := e.awaitState(ctx, id, fleeting.StateSuspended); err != nil {
		return "", err
	}
	if done, err = e.probe.Resume(ctx, []string{id}); err != nil || len(done) != 1 {
		return "", fmt.Errorf("Resume returned %v, %w", done, err)
	}
	return "", e.awaitState(ctx, id, fleeting.StateRunning)
}

func (e *exam) awaitState(ctx context.Context, id string, want fleeting.State) error {
	return e.await(ctx, func(seen map[string]fleeting.State) bool { return seen[id] == want })
}

func (e *exam) restart(ctx context.Context) (string, error) {
	if err := e.again(ctx); err != nil {
		return "", err
	}
	seen, err := e.states(ctx)
	if err != nil {
		return "", err
	}
	for _, id := range e.ours {
		if seen[id] == fleeting.StateRunning {
			continue
		}
		if e.o.Forgets {
			return "", e.renew(ctx)
		}
		return "", fmt.Errorf("%s no longer runs: Update returned %v", id, mine(seen, e.ours))
	}
	return e.connect(ctx)
}

// renew creates instances to replace the ones that the plugin forgot.
func (e *exam) renew(ctx context.Context) error {
	if _, err := e.increase(ctx); err != nil {
		return err
	}
	if _, err := e.awaitRunning(ctx); err != nil {
		return err
	}
	return note("it forgets its instances, as configured")
}

func (e *exam) decreasePartly(ctx context.Context) (string, error) {
	good, other := e.ours[0], e.ours[1]
	gone, err := e.probe.Decrease(ctx, []string{good, unknown})
	if err != nil && !answered(err) {
		words := strings.TrimSpace(e.probe.LastWords())
		if again := e.again(ctx); again == nil {
			_, again = e.probe.Decrease(ctx, []string{good}) // for the next step
			err = errors.Join(err, again)
		}
		return "", fmt.Errorf("%w: %s", err, words)
	}
	seen, listErr := e.states(ctx)
	if listErr != nil {
		return "", listErr
	}
	if !present(seen[other]) {
		return "", fmt.Errorf("%s was deleted, although the call did not name it", other)
	}
	if err == nil {
		return fmt.Sprintf("it returned %v", gone), nil
	}
	if !present(seen[good]) {
		return "", note("it fails, but deletes the known one: %v", err)
	}
	if _, err := e.probe.Decrease(ctx, []string{good}); err != nil {
		return "", fmt.Errorf("the known one alone: %w", err)
	}
	return "", note("it fails, and deletes none: %v", err)
}

func (e *exam) awaitOneGone(ctx context.Context) (string, error) {
	good, other := e.ours[0], e.ours[1]
	return "", e.await(ctx, func(seen map[string]fleeting.State) bool {
		return (seen[good] == "" || seen[good] == fleeting.StateDeleted) && seen[other] == fleeting.StateRunning
	})
}

func (e *exam) decreaseAndDie(ctx context.Context) (string, error) {
	id := e.ours[1]
	if _, err := e.probe.Decrease(ctx, []string{id}); err != nil {
		return "", err //nolint:wrapcheck // the text is complete
	}
	if err := e.again(ctx); err != nil {
		return "", err
	}
	seen, err := e.states(ctx)
	if err != nil {
		return "", err
	}
	told := ""
	if present(seen[id]) {
		told = "Decrease was repeated"
		if _, err := e.probe.Decrease(ctx, []string{id}); err != nil {
			return "", err //nolint:wrapcheck // the text is complete
		}
	}
	err = e.await(ctx, func(seen map[string]fleeting.State) bool { return seen[id] == "" || seen[id] == fleeting.StateDeleted })
	if err == nil && told != "" {
		err = note("%s", told)
	}
	return "", err
}

func (e *exam) decreaseGone(ctx context.Context) (string, error) {
	_, err := e.probe.Decrease(ctx, e.ours)
	if err != nil && !answered(err) {
		return "", err //nolint:wrapcheck // the text is complete
	}
	if err != nil {
		return "", note("%v", err)
	}
	return "", nil
}

func (e *exam) shutdown(ctx context.Context) (string, error) {
	err := e.probe.Shutdown(ctx)
	if errors.Is(err, fleeting.ErrNotSupported) {
		return "", note("it does not serve Shutdown")
	}
	return "", err //nolint:wrapcheck // the text is complete
}
