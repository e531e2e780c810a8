package controller_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/fleeting/controller"
	truth "github.com/drover-run/drover/fleeting/fleetingtest/cloud"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// agentStarter starts the agents of machines, like an SSH bootstrap.
type agentStarter struct {
	mu      sync.Mutex
	started map[string]bool
}

func (s *agentStarter) Bootstrap(_ context.Context, i controller.Instance, _ fleeting.ConnectInfo) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started[i.ID] = true
	return nil
}

// newPluginEnv returns an env whose machines come from a real plugin process.
func newPluginEnv(t *testing.T, s truth.Settings, change func(*run.FleetSpec)) (*env, *truth.Cloud) {
	t.Helper()
	plugin := testenv.BuildProgram(t, ".", "./fleeting/fleetingtest/faulty")
	c, err := truth.Open(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, c.Set(s))
	dir := t.TempDir()
	w := newEnv(t)
	w.open = func(ctx context.Context, _ run.Fleet) (controller.Group, error) {
		return fleeting.Open(ctx, fleeting.Options{Plugin: plugin, Config: c.Config(), Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	}
	agents := &agentStarter{started: map[string]bool{}}
	w.bootstrapper = agents
	w.running = func() []string {
		ids, err := c.IDs()
		if err != nil && t.Context().Err() == nil {
			t.Errorf("list the instances of the cloud: %v", err)
		}
		agents.mu.Lock()
		defer agents.mu.Unlock()
		return slices.DeleteFunc(ids, func(id string) bool { return !agents.started[id] })
	}
	w.newWorker()
	t.Cleanup(func() { require.NoError(t, w.worker.Release(w.name)) })
	w.put(func(s *run.FleetSpec) {
		s.Bootstrap = run.BootstrapSSH
		if change != nil {
			change(s)
		}
	})
	return w, c
}

func TestFleet_servers_that_vanish_while_they_are_created(t *testing.T) {
	t.Parallel()
	w, c := newPluginEnv(t, truth.Settings{CreateTime: 100 * time.Millisecond}, nil)
	// Real plugins exit when they are asked about an unknown instance.
	require.NoError(t, c.Inject(
		truth.Fault{Call: "ConnectInfo", Outcome: truth.Crash, OnUnknown: true, Delay: 200 * time.Millisecond},
		truth.Fault{Call: "ConnectInfo", Delay: 500 * time.Millisecond},
	))
	var vanished string
	w.onBootstrap = func(numbers []int) {
		if vanished != "" {
			return
		}
		for _, i := range w.ledger() {
			if i.Number == numbers[0] {
				vanished = i.Instance
			}
		}
		require.NoError(t, c.Vanish(vanished))
	}
	w.start()
	w.submit(4)
	w.awaitCount(run.InstanceReady, 4)
	machines := 0
	for _, i := range w.ledger() {
		if i.Instance == "" {
			continue // a request that the crash of the plugin interrupted
		}
		machines++
		require.Equal(t, i.Instance == vanished, i.State == run.InstanceGone, i.Message)
	}
	require.Equal(t, 5, machines, "no other machine was lost")
	inits, err := c.Count("Init")
	require.NoError(t, err)
	require.LessOrEqual(t, inits, 2, "the plugin exited at most once")
}

func TestFleet_plugin_that_ends_while_machines_are_bootstrapped(t *testing.T) {
	t.Parallel()
	w, c := newPluginEnv(t, truth.Settings{}, nil)
	require.NoError(t, c.Inject(
		truth.Fault{Call: "ConnectInfo", Outcome: truth.Crash, Delay: 200 * time.Millisecond, Times: 1},
		truth.Fault{Call: "ConnectInfo", Delay: 500 * time.Millisecond},
	))
	w.start()
	w.submit(3)
	w.awaitCount(run.InstanceReady, 3)
	require.Len(t, w.ledger(), 3)
}

func TestFleet_plugin_whose_resources_are_gone_is_started_again(t *testing.T) {
	t.Parallel()
	w, c := newPluginEnv(t, truth.Settings{NeedsKey: true}, nil)
	w.start()
	id := w.submit(1)
	w.awaitCount(run.InstanceReady, 1)
	require.NoError(t, c.LoseKey())
	machine := w.running()[0]
	require.NoError(t, w.claim(id, 0, machine))
	w.submit(1)
	w.awaitCount(run.InstanceReady, 2)
	inits, err := c.Count("Init")
	require.NoError(t, err)
	require.Equal(t, 2, inits, "it was restarted once")
	increases, err := c.Count("Increase")
	require.NoError(t, err)
	require.Equal(t, 4, increases, "two were refused before that")
	e, err := w.store.GetExecutor(t.Context(), w.agentOf(machine))
	require.NoError(t, err)
	require.Equal(t, 1, e.Tasks, "the task on the first machine continues")
	events, err := w.fleets.FleetEvents(t.Context(), fleetName, -1, 1000)
	require.NoError(t, err)
	at := slices.IndexFunc(events, func(e run.FleetEvent) bool { return e.Kind == "plugin_restarted" })
	require.Positive(t, at)
	require.Equal(t, "the plugin refused 2 requests in a row and is restarted; the last: the plugin refused: Increase: plugin error: the SSH key is not found", events[at].Text)
}

// TestFleet_restart_of_a_plugin_names_the_refusal covers a failure of another
// kind after the refusals that lead to the restart of the plugin.
func TestFleet_restart_of_a_plugin_names_the_refusal(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.bootstrapper, w.running = failingBootstrapper{}, func() []string { return nil }
	w.newWorker()
	w.freeze()
	w.cloud.do(func() {
		w.cloud.increase = func(*cloud, int) (int, error) {
			return 0, &fleeting.CallError{Call: "Increase", Code: codes.Unknown, Message: "the key is not found"}
		}
	})
	w.put(func(s *run.FleetSpec) { s.Bootstrap = run.BootstrapSSH })
	w.start()
	w.submit(1)
	remembers := func(text string) bool {
		v, err := w.store.ViewFleet(t.Context(), fleetName)
		return err == nil && strings.Contains(v.PolicyState, text)
	}
	w.await("a refusal", func() bool { return remembers(`"refusals":1`) })
	w.clock(5 * time.Second)
	w.await("two refusals", func() bool { return remembers(`"refusals":2`) })
	w.cloud.do(func() { w.cloud.add(1) })
	w.await("the failure of a machine that appeared", func() bool {
		w.clock(time.Millisecond) // a listing is due
		return remembers("it does not answer")
	})
	w.await("the restart", func() bool {
		w.clock(time.Second)
		return slices.Contains(w.events(), "plugin_restarted")
	})
	events, err := w.fleets.FleetEvents(t.Context(), fleetName, -1, 1000)
	require.NoError(t, err)
	at := slices.IndexFunc(events, func(e run.FleetEvent) bool { return e.Kind == "plugin_restarted" })
	require.Equal(t, "the plugin refused 2 requests in a row and is restarted; the last: the plugin refused: Increase: plugin error: the key is not found", events[at].Text)
}

// TestFleet_rollout_counts_the_machines_of_the_cloud covers machines whose
// deletion takes long: they exist, and so they count for max_surge.
func TestFleet_rollout_counts_the_machines_of_the_cloud(t *testing.T) {
	t.Parallel()
	for name, byHand := range map[string]bool{"of the policy": false, "of a number that an operator set": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := func(s *run.FleetSpec) {
				s.Update = run.FleetUpdate{MaxSurge: "1", MaxUnavailable: "0"}
				if !byHand {
					idle(4)(s)
				}
			}
			w, c := newPluginEnv(t, truth.Settings{DeleteTime: time.Second}, spec)
			if byHand {
				_, err := w.fleets.ControlFleet(t.Context(), fleetName, run.FleetControl{Action: run.FleetActionScale, Instances: 4, By: "tester"})
				require.NoError(t, err)
			}
			w.start()
			w.awaitCount(run.InstanceReady, 4)
			w.put(image("b", func(s *run.FleetSpec) {
				s.Bootstrap = run.BootstrapSSH
				spec(s)
			}))
			w.awaitRollout(2, run.RolloutComplete)
			w.awaitCount(run.InstanceReady, 4)
			machines, err := c.Most()
			require.NoError(t, err)
			require.Equal(t, 5, machines, "the machines that existed at the same time")
		})
	}
}

// TestFleet_rollout_in_a_cloud_that_deletes_nothing covers a rollout that may
// replace all instances at once: tasks get instances although those of the
// earlier revision stay, and the rollout names them.
func TestFleet_rollout_in_a_cloud_that_deletes_nothing(t *testing.T) {
	t.Parallel()
	for name, byHand := range map[string]bool{"of the policy": false, "of a number that an operator set": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := func(s *run.FleetSpec) {
				s.Update = run.FleetUpdate{MaxSurge: "0", MaxUnavailable: "100%"}
				if !byHand {
					idle(2)(s)
				}
			}
			w, c := newPluginEnv(t, truth.Settings{}, spec)
			if byHand {
				_, err := w.fleets.ControlFleet(t.Context(), fleetName, run.FleetControl{Action: run.FleetActionScale, Instances: 2, By: "tester"})
				require.NoError(t, err)
			}
			w.start()
			w.awaitCount(run.InstanceReady, 2)
			old := w.running()
			require.NoError(t, c.Inject(truth.Fault{Call: "Decrease", Outcome: truth.Fail}))
			w.put(image("b", func(s *run.FleetSpec) {
				s.Bootstrap = run.BootstrapSSH
				spec(s)
			}))
			w.await("the machines that the rollout waits for", func() bool {
				m := w.rollout().Message
				return strings.Contains(m, "instances of earlier revisions: 2") && strings.Contains(m, old[0]) && strings.Contains(m, old[1]) &&
					strings.Contains(m, "the cloud refused")
			})
			require.Len(t, w.in(run.InstanceDeleting), 2)
			require.Empty(t, w.in(run.InstanceReady), "no task waits")

			id := w.submit(1)
			w.awaitCount(run.InstanceReady, 1)
			replacement := w.in(run.InstanceReady)[0]
			require.Equal(t, 2, replacement.Revision)
			w.await("a slot", func() bool { return w.claim(id, 0, replacement.Instance) == nil })
			machines, err := c.Most()
			require.NoError(t, err)
			require.Equal(t, 3, machines, "one for the task, and none for the number of instances")

			require.NoError(t, c.Inject())
			w.awaitRollout(2, run.RolloutComplete)
			w.finish(id, 0)
			w.awaitCount(run.InstanceReady, 2)
		})
	}
}
