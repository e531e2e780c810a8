package controller_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/fleeting/controller"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// pauseOfOne is shorter than the pause after one failure.
const pauseOfOne = 4 * time.Second

func TestFleet_waiting_task_names_the_error_of_its_fleet(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.freeze()
	w.cloud.increase = func(*cloud, int) (int, error) { return 0, errors.New("quota exceeded") }
	w.put(nil)
	id := w.submit(1)
	require.Equal(t, "no executor of pool linux is online; fleet linux: no fleet worker has watched it yet", w.reason(id))
	w.start()
	w.awaitWithin(pauseOfOne, "the pause", func() bool {
		f, err := w.fleets.Fleet(t.Context(), fleetName)
		return err == nil && f.Status.BlockedBy == "backoff"
	})
	require.Regexp(t, `^no executor of pool linux is online; fleet linux: it requests no more instances before \d\d:\d\d:\d\d UTC, `+
		`after 1 failures in a row; the last: the plugin refused: quota exceeded$`, w.reason(id))
}

// reason returns the reason of the only task of a run.
func (w *env) reason(id run.ID) string {
	w.t.Helper()
	r, err := w.engine.Get(w.t.Context(), id)
	require.NoError(w.t, err)
	return r.Tasks[0].Reason
}

// TestFleet_refusal_that_follows_a_status covers a refusal just after the status
// of the fleet was written: it is told before the next request.
func TestFleet_refusal_that_follows_a_status(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.freeze()
	refuse := make(chan struct{})
	w.cloud.do(func() {
		w.cloud.hang = refuse
		w.cloud.increase = func(*cloud, int) (int, error) { return 0, errors.New("quota exceeded") }
	})
	w.put(nil)
	id := w.submit(1)
	w.start()
	w.awaitWithin(pauseOfOne, "a status with the request", func() bool {
		f, err := w.fleets.Fleet(t.Context(), fleetName)
		return err == nil && f.Status.Instances == 1
	})
	close(refuse)
	w.await("the reason", func() bool { return strings.Contains(w.reason(id), "the plugin refused: quota exceeded") })
	w.cloud.do(func() { require.Len(t, w.cloud.increases, 1, "there was no other request") })
	f, err := w.fleets.Fleet(t.Context(), fleetName)
	require.NoError(t, err)
	require.Contains(t, f.Status.Error, "the plugin refused: quota exceeded")
	w.awaitCount(run.InstanceGone, 1)
	// The next request is running: the reason of the failure stays.
	again := make(chan struct{})
	w.cloud.do(func() { w.cloud.hang = again })
	w.clock(time.Minute)
	w.submit(1)
	w.awaitWithin(pauseOfOne, "the next request", func() bool {
		return strings.Contains(w.reason(id), "it requests instances again after 1 failures in a row; the last: the plugin refused: quota exceeded")
	})
	w.cloud.do(func() { w.cloud.hang, w.cloud.increase = nil, nil })
	close(again)
}

// errorStore calls onError before it writes an error of a fleet.
type errorStore struct {
	records.Store
	onError func()
}

func (s errorStore) ChangeFleet(ctx context.Context, name string, c records.FleetChanges) ([]int, error) {
	if c.Error != nil {
		s.onError()
	}
	return s.Store.ChangeFleet(ctx, name, c)
}

// TestFleet_newer_refusal covers a refusal after another failure, which the memory
// of the fleet still names: the status names the newer one.
func TestFleet_newer_refusal(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.freeze()
	hold := make(chan struct{})
	var refusals atomic.Int64
	w.store = errorStore{Store: w.store, onError: func() {
		if refusals.Add(1) == 2 {
			<-hold // so that only a round can write it
		}
	}}
	w.newWorker()
	refuse := func(why string) {
		w.cloud.do(func() { w.cloud.increase = func(*cloud, int) (int, error) { return 0, errors.New(why) } })
	}
	refuse("quota exceeded")
	w.put(nil)
	w.submit(1)
	w.start()
	release := sync.OnceFunc(func() { close(hold) })
	t.Cleanup(release)
	w.awaitCount(run.InstanceGone, 1)
	refuse("no servers left")
	w.clock(time.Minute)
	w.wake()
	w.await("the second refusal", func() bool { return refusals.Load() == 2 })
	w.awaitWithin(pauseOfOne, "its text", func() bool {
		f, err := w.fleets.Fleet(t.Context(), fleetName)
		return err == nil && f.Status.Error == "the plugin refused: no servers left"
	})
	release()
	w.awaitCount(run.InstanceGone, 2)
}

// TestFleet_refusal_before_a_slow_listing covers a refusal whose result only a
// listing shows: its reason does not wait for the listing.
func TestFleet_refusal_before_a_slow_listing(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	list := make(chan struct{})
	w.cloud.do(func() {
		w.cloud.increase = func(c *cloud, _ int) (int, error) {
			c.hangUpdate = list
			return 0, errors.New("quota exceeded")
		}
	})
	w.put(nil)
	id := w.submit(1)
	w.start()
	w.await("the reason", func() bool { return strings.Contains(w.reason(id), "fleet linux: the plugin refused: quota exceeded") })
	require.Len(t, w.in(run.InstanceRequested), 1, "the listing may show the machine")
	w.cloud.do(func() { w.cloud.hangUpdate = nil })
	close(list)
	w.await("the pause", func() bool { return strings.Contains(w.reason(id), "it requests no more instances before") })
}

func TestFleet_hides_credentials_that_the_plugin_repeats(t *testing.T) {
	t.Parallel()
	const token = "t0ken-of-the-cloud"
	w := newEnv(t)
	w.cloud.increase = func(*cloud, int) (int, error) { return 0, errors.New("the API key " + token + " has expired") }
	w.put(func(s *run.FleetSpec) {
		s.PluginConfig = json.RawMessage(`{"endpoint": "cloud.example", "auth": {"api_key": "` + token + `"}}`)
	})
	w.submit(1)
	w.start()
	w.awaitCount(run.InstanceGone, 1)
	w.await("the status", func() bool {
		f, err := w.fleets.Fleet(t.Context(), fleetName)
		return err == nil && strings.Contains(f.Status.Error, "the API key *** has expired")
	})
	instances, err := w.fleets.FleetInstances(t.Context(), fleetName, true)
	require.NoError(t, err)
	events, err := w.fleets.FleetEvents(t.Context(), fleetName, 0, 100)
	require.NoError(t, err)
	v, err := w.store.ViewFleet(t.Context(), fleetName)
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprintf("%+v %+v %+v %s", instances, events, v.Fleet.Status, v.PolicyState), token)
}

// failingBootstrapper fails every bootstrap.
type failingBootstrapper struct{}

func (failingBootstrapper) Bootstrap(context.Context, controller.Instance, fleeting.ConnectInfo) error {
	return errors.New("it does not answer")
}

func TestFleet_machines_of_one_request_that_fail_lead_to_one_pause(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.bootstrapper, w.running = failingBootstrapper{}, func() []string { return nil }
	w.newWorker()
	w.freeze()
	w.put(func(s *run.FleetSpec) { s.Bootstrap = run.BootstrapSSH })
	w.submit(5)
	w.start()
	w.awaitWithin(pauseOfOne, "the pause after five instances", func() bool {
		f, err := w.fleets.Fleet(t.Context(), fleetName)
		return err == nil && f.Status.BlockedBy == "backoff" && len(w.in(run.InstanceGone)) == 5
	})
	f, err := w.fleets.Fleet(t.Context(), fleetName)
	require.NoError(t, err)
	require.Equal(t, 1, f.Status.Failures)
	require.Contains(t, f.Status.Error, "it does not answer")
}

// TestFleet_plugin_that_does_not_start covers a plugin whose launches fail: a
// fleet waits until the time that the host names, and tells it. Meanwhile it
// tries other settings at once.
func TestFleet_plugin_that_does_not_start(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	at := time.Now().Add(40 * time.Minute)
	var opened atomic.Int64
	w.open = func(_ context.Context, f run.Fleet) (controller.Group, error) {
		if strings.Contains(string(f.Spec.PluginConfig), "good") {
			return w.cloud, nil
		}
		opened.Add(1)
		return nil, &fleeting.PauseError{At: at, Err: &fleeting.CallError{Call: "Init", Code: codes.Unknown, Message: "bad token"}}
	}
	w.put(image("bad", nil))
	id := w.submit(1)
	w.start()
	w.await("the reason", func() bool {
		return strings.HasSuffix(w.reason(id), "the plugin answered: bad token; the next try is at "+at.UTC().Format(time.TimeOnly)+" UTC")
	})
	w.clock(30 * time.Minute)
	// Each status is one of a further round.
	for queued := 2; queued < 5; queued++ {
		w.submit(1)
		w.await("another round", func() bool {
			f, err := w.fleets.Fleet(t.Context(), fleetName)
			return err == nil && f.Status.Queued == queued
		})
	}
	require.EqualValues(t, 1, opened.Load())
	w.clock(time.Hour)
	w.submit(1)
	w.await("the next try", func() bool { return opened.Load() > 1 })
	w.clock(-time.Hour)
	w.put(image("good", nil))
	w.awaitCount(run.InstanceReady, 5)
}

// TestFleet_listing_that_fails covers a plugin that runs and cannot list: the
// pauses between the listings grow.
func TestFleet_listing_that_fails(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.freeze()
	tries := 0
	listings := func() (n int) {
		w.cloud.do(func() { n = tries })
		return n
	}
	w.cloud.do(func() {
		w.cloud.onUpdate = errors.New("too many requests")
		w.cloud.onTry = func() { tries++ }
	})
	w.put(nil)
	w.start()
	w.await("the status after the first listing", func() bool {
		f, err := w.fleets.Fleet(t.Context(), fleetName)
		return err == nil && f.Status.Error == "too many requests"
	})
	queued := 0
	for n, pause := range []int{2, 4, 8, 16} {
		for second := 1; second <= pause; second++ {
			require.Equal(t, n+1, listings(), "second %d after listing %d", second, n+1)
			w.clock(time.Second)
			w.submit(1)
			queued++
			w.await("the next round", func() bool {
				f, err := w.fleets.Fleet(t.Context(), fleetName)
				return err == nil && f.Status.Queued == queued
			})
		}
		// The round may have begun before the clock moved; then the next one lists.
		w.await(fmt.Sprintf("a listing %d s after listing %d", pause, n+1), func() bool { return listings() > n+1 })
	}
}
