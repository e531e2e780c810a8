package fleetingtest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/drover-run/drover/fleeting"
)

// isCallError reports whether the plugin itself returned an error, and survived.
func isCallError(err error) bool {
	said := (*fleeting.CallError)(nil)
	return errors.As(err, &said)
}

func (e *checker) connectUnknown(ctx context.Context) (string, error) {
	_, err := e.probe.ConnectInfo(ctx, unknown)
	switch {
	case err == nil:
		return "", errors.New("it returned an address for an instance that does not exist")
	case isCallError(err):
		return err.Error(), nil
	}
	return "", err
}

func (e *checker) heartbeatUnknown(ctx context.Context) (string, error) {
	err := e.probe.Heartbeat(ctx, unknown)
	switch {
	case err == nil:
		return "", note("it reports an instance healthy that does not exist: it does not check health")
	case errors.Is(err, fleeting.ErrNotSupported):
		return "", note("it does not serve Heartbeat")
	case isCallError(err):
		return err.Error(), nil
	}
	return "", err
}

func (e *checker) decreaseUnknown(ctx context.Context) (string, error) {
	gone, err := e.probe.Decrease(ctx, []string{unknown})
	if err != nil && !isCallError(err) {
		return "", err
	}
	seen, listErr := e.states(ctx)
	if listErr != nil {
		return "", listErr
	}
	for id, state := range e.existing {
		if present(state) && !present(seen[id]) {
			return "", fmt.Errorf("%s was deleted", id)
		}
	}
	if err != nil {
		return "", note("%v", err)
	}
	return fmt.Sprintf("it returned %v", gone), nil
}

func (e *checker) increase(ctx context.Context) (string, error) {
	n, err := e.probe.Increase(ctx, instanceCount)
	if err == nil && n != instanceCount {
		err = fmt.Errorf("it reports that it created %d of %d", n, instanceCount)
	}
	if err != nil && !e.probe.Alive() {
		err = fmt.Errorf("%w; it exited: %s", err, strings.TrimSpace(e.probe.LogTail()))
		if relaunchErr := e.relaunch(ctx); relaunchErr != nil {
			return "", fmt.Errorf("%w; relaunch: %w", err, relaunchErr)
		}
	}
	// The check owns them although the call failed.
	listed := e.await(ctx, func(seen map[string]fleeting.State) bool {
		e.created = nil
		for id, state := range seen {
			if _, old := e.existing[id]; !old && state != fleeting.StateDeleted {
				e.created = append(e.created, id)
			}
		}
		return len(e.created) >= instanceCount || err != nil
	})
	if err == nil {
		err = listed
	}
	if err != nil {
		return "", fmt.Errorf("%w; %d of %d exist", err, len(e.created), instanceCount)
	}
	if len(e.created) > instanceCount {
		return "", fmt.Errorf("there are %d instead of %d", len(e.created), instanceCount)
	}
	return strings.Join(e.created, " "), nil
}

func (e *checker) awaitRunning(ctx context.Context) (string, error) {
	return "", e.await(ctx, func(seen map[string]fleeting.State) bool {
		for _, id := range e.created {
			if seen[id] != fleeting.StateRunning {
				return false
			}
		}
		return true
	})
}

func (e *checker) connect(ctx context.Context) (string, error) {
	var addresses []string
	for _, id := range e.created {
		info, err := e.probe.ConnectInfo(ctx, id)
		if err != nil {
			return "", err
		}
		if info.InternalAddr == "" && info.ExternalAddr == "" {
			return "", fmt.Errorf("%s has no address", id)
		}
		addresses = append(addresses, fmt.Sprintf("%s@%s|%s", info.Username, info.InternalAddr, info.ExternalAddr))
	}
	return strings.Join(addresses, " "), nil
}

func (e *checker) heartbeat(ctx context.Context) (string, error) {
	for _, id := range e.created {
		err := e.probe.Heartbeat(ctx, id)
		if errors.Is(err, fleeting.ErrNotSupported) {
			return "", note("it does not serve Heartbeat")
		}
		if err != nil {
			return "", err
		}
	}
	return "", nil
}

func (e *checker) suspend(ctx context.Context) (string, error) {
	id := e.created[0]
	if !e.info.Can(fleeting.CapabilitySuspendResume) {
		_, err := e.probe.Suspend(ctx, []string{id})
		if err != nil && !isCallError(err) && !errors.Is(err, fleeting.ErrNotSupported) {
			return "", err
		}
		if err == nil {
			return "", note("it suspends, but does not announce the capability")
		}
		return "", fmt.Errorf("%w: it does not announce the capability", errSkipped)
	}
	done, err := e.probe.Suspend(ctx, []string{id})
	if err != nil || len(done) != 1 {
		return "", fmt.Errorf("call Suspend: it returned %v, %w", done, err)
	}
	if err := e.awaitState(ctx, id, fleeting.StateSuspended); err != nil {
		return "", err
	}
	if done, err = e.probe.Resume(ctx, []string{id}); err != nil || len(done) != 1 {
		return "", fmt.Errorf("call Resume: it returned %v, %w", done, err)
	}
	return "", e.awaitState(ctx, id, fleeting.StateRunning)
}

func (e *checker) awaitState(ctx context.Context, id string, want fleeting.State) error {
	return e.await(ctx, func(seen map[string]fleeting.State) bool { return seen[id] == want })
}

func (e *checker) restart(ctx context.Context) (string, error) {
	if err := e.relaunch(ctx); err != nil {
		return "", err
	}
	seen, err := e.states(ctx)
	if err != nil {
		return "", err
	}
	for _, id := range e.created {
		if seen[id] == fleeting.StateRunning {
			continue
		}
		if e.o.InMemory {
			return "", e.replaceForgotten(ctx)
		}
		return "", fmt.Errorf("%s no longer runs: Update returned %v", id, statesOf(seen, e.created))
	}
	return e.connect(ctx)
}

// replaceForgotten creates instances to replace the ones that the plugin forgot.
func (e *checker) replaceForgotten(ctx context.Context) error {
	if _, err := e.increase(ctx); err != nil {
		return err
	}
	if _, err := e.awaitRunning(ctx); err != nil {
		return err
	}
	return note("it forgets its instances, as configured")
}

func (e *checker) decreasePartly(ctx context.Context) (string, error) {
	good, other := e.created[0], e.created[1]
	gone, err := e.probe.Decrease(ctx, []string{good, unknown})
	if err != nil && !isCallError(err) {
		words := strings.TrimSpace(e.probe.LogTail())
		if relaunchErr := e.relaunch(ctx); relaunchErr == nil {
			_, relaunchErr = e.probe.Decrease(ctx, []string{good}) // for the next step
			err = errors.Join(err, relaunchErr)
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

func (e *checker) awaitOneGone(ctx context.Context) (string, error) {
	good, other := e.created[0], e.created[1]
	return "", e.await(ctx, func(seen map[string]fleeting.State) bool {
		return (seen[good] == "" || seen[good] == fleeting.StateDeleted) && seen[other] == fleeting.StateRunning
	})
}

func (e *checker) killAfterDecrease(ctx context.Context) (string, error) {
	id := e.created[1]
	if _, err := e.probe.Decrease(ctx, []string{id}); err != nil {
		return "", err
	}
	if err := e.relaunch(ctx); err != nil {
		return "", err
	}
	seen, err := e.states(ctx)
	if err != nil {
		return "", err
	}
	repeated := ""
	if present(seen[id]) {
		repeated = "Decrease was repeated"
		if _, err := e.probe.Decrease(ctx, []string{id}); err != nil {
			return "", err
		}
	}
	err = e.await(ctx, func(seen map[string]fleeting.State) bool { return seen[id] == "" || seen[id] == fleeting.StateDeleted })
	if err == nil && repeated != "" {
		err = note("%s", repeated)
	}
	return "", err
}

func (e *checker) decreaseGone(ctx context.Context) (string, error) {
	_, err := e.probe.Decrease(ctx, e.created)
	if err != nil && !isCallError(err) {
		return "", err
	}
	if err != nil {
		return "", note("%v", err)
	}
	return "", nil
}

func (e *checker) shutdown(ctx context.Context) (string, error) {
	err := e.probe.Shutdown(ctx)
	if errors.Is(err, fleeting.ErrNotSupported) {
		return "", note("it does not serve Shutdown")
	}
	return "", err
}
