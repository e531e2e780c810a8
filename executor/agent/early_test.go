package agent_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/agent"
	"github.com/drover-run/drover/run"
)

// slowAPI answers claims once granted is closed.
type slowAPI struct {
	quietAPI

	claims  chan struct{} // receives a value for each claim
	granted chan struct{}
}

func (a *slowAPI) Claim(ctx context.Context, _ run.ClaimRequest) (run.Definition, error) {
	a.claims <- struct{}{}
	select {
	case <-a.granted:
		return run.Definition{Steps: []run.StepDef{{}}}, nil
	case <-ctx.Done():
		return run.Definition{}, context.Cause(ctx)
	}
}

// startDriver counts the environments that it starts.
type startDriver struct {
	slowDriver

	starts int
}

func (d *startDriver) Start(context.Context, executor.Task) (executor.Handle, error) {
	d.starts++
	return quietHandle{}, nil
}

// TestAgent_delivery_before_Run delivers a task to an agent whose Run has not begun,
// as a worker does that starts at the same time. Run executes the task once, after the
// call that accepted it.
func TestAgent_delivery_before_Run(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := &slowAPI{claims: make(chan struct{}, 4), granted: make(chan struct{})}
		driver := &startDriver{slowDriver: slowDriver{asked: make(chan struct{}, 4), found: make(chan struct{})}}
		close(driver.found)
		a, err := agent.New(agent.Deps{Driver: driver, API: api, Tokens: quietTokens{}}, agent.Options{Pool: "pool", StateDir: t.TempDir()})
		require.NoError(t, err)
		accepted := make(chan agent.Outcome)
		go func() {
			key := run.Key{Run: testRun, Attempt: 1, Dispatch: 1}
			accepted <- a.Execute(t.Context(), agent.Delivery{Key: key, Token: []byte("token"), Attempt: 1})
		}()
		<-api.claims
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- a.Run(ctx) }()
		synctest.Wait()
		require.Empty(t, api.claims, "the call that accepts the task requests the claim alone")
		close(api.granted)
		require.True(t, (<-accepted).Pending())
		synctest.Wait()
		cancel()
		require.NoError(t, <-ended)
		require.Equal(t, 1, driver.starts)
	})
}
