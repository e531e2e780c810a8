package agent_test

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/agent"
	"github.com/drover-run/drover/run"
)

// slowDriver has one environment and takes long to find it.
type slowDriver struct {
	executor.Driver

	asked chan struct{} // receives a value for each call of Attach
	found chan struct{} // Attach returns once it is closed
}

func (*slowDriver) Features() executor.Features             { return executor.Features{Name: "fake"} }
func (*slowDriver) Check(context.Context) error             { return nil }
func (*slowDriver) List(context.Context) ([]run.Key, error) { return nil, nil }
func (d *slowDriver) Attach(context.Context, run.Key) (executor.Handle, error) {
	d.asked <- struct{}{}
	<-d.found
	return quietHandle{}, nil
}

// quietHandle is an environment that runs and writes nothing.
type quietHandle struct{ executor.Handle }

func (quietHandle) Events(ctx context.Context, _ int64) iter.Seq2[run.Frame, error] {
	return func(yield func(run.Frame, error) bool) {
		<-ctx.Done()
		yield(run.Frame{}, context.Cause(ctx))
	}
}

// quietAPI accepts everything.
type quietAPI struct{ run.ExecutorAPI }

func (quietAPI) Register(context.Context, run.Executor) (run.DesiredState, error) {
	return run.DesiredState{}, nil
}

func (quietAPI) Renew(context.Context, run.Renewal) (run.DesiredState, error) {
	return run.DesiredState{}, nil
}

func (quietAPI) Claim(context.Context, run.ClaimRequest) (run.Definition, error) {
	return run.Definition{}, nil
}

func (quietAPI) ClaimStates(_ context.Context, _ string, keys []run.Key) (map[run.Key]run.ClaimState, error) {
	states := map[run.Key]run.ClaimState{}
	for _, key := range keys {
		states[key] = run.ClaimOpen
	}
	return states, nil
}

type quietTokens struct{}

func (quietTokens) Heartbeat(context.Context, []byte, agent.HeartbeatDetails) error { return nil }
func (quietTokens) Complete(context.Context, []byte, agent.Outcome) error           { return nil }

// Two adoptions of a key without an entry arrive at the same time. While the first one
// looks for the environment, nothing is known of the key: the second one must not
// answer that the key never started. The task is executed once, also if it was adopted
// before Run began.
func TestAgent_adopts_an_unknown_key_twice_at_once(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"while it runs": false, "before it runs": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				driver := &slowDriver{asked: make(chan struct{}, 4), found: make(chan struct{})}
				a, err := agent.New(agent.Deps{Driver: driver, API: quietAPI{}, Tokens: quietTokens{}}, agent.Options{Pool: "pool", StateDir: t.TempDir()})
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				start := func() {
					go func() { ended <- a.Run(ctx) }()
					synctest.Wait()
				}
				if !before {
					start()
				}
				adoption := agent.Adoption{Key: run.Key{Run: testRun, Attempt: 1, Dispatch: 1}, Token: []byte("first"), JournalID: "lost"}
				type answer struct {
					out agent.Outcome
					err error
				}
				first := make(chan answer)
				go func() {
					out, err := a.Adopt(t.Context(), adoption)
					first <- answer{out, err}
				}()
				<-driver.asked
				if before {
					start()
				}

				adoption.Token = []byte("second")
				second, secondErr := a.Adopt(t.Context(), adoption)
				close(driver.found)
				got := <-first
				again, againErr := a.Adopt(t.Context(), adoption)
				synctest.Wait()
				attached := len(driver.asked)
				cancel()
				require.NoError(t, <-ended)

				require.NoError(t, got.err)
				require.True(t, got.out.Pending(), "%+v", got.out)
				require.Equal(t, run.CodeUnavailable, run.CodeOf(secondErr), "%+v", second)
				require.NoError(t, againErr, "the service asks again")
				require.True(t, again.Pending(), "%+v", again)
				require.Equal(t, 1, attached, "one execution attached to the environment")
			})
		})
	}
}
