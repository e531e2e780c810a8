package maintenance_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/engine/maintenance"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// retentionCalls records the calls of Temporal.
type retentionCalls struct {
	mu       sync.Mutex
	asked    []string
	settings []any
	err      error
}

func (c *retentionCalls) note(what string, arg any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked, c.settings = append(c.asked, what), append(c.settings, arg)
	return c.err
}

func (c *retentionCalls) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, _ any, args ...any) (client.WorkflowRun, error) {
	return nil, c.note("start "+o.ID, args[0])
}

func (c *retentionCalls) SignalWithStartWorkflow(
	_ context.Context, id, signal string, arg any, _ client.StartWorkflowOptions, _ any, _ ...any,
) (client.WorkflowRun, error) {
	return nil, c.note("start and signal "+id+" "+signal, arg)
}

func (c *retentionCalls) SignalWorkflow(_ context.Context, id, _, signal string, arg any) error {
	return c.note("signal "+id+" "+signal, arg)
}

func TestRetentionSupervisor(t *testing.T) {
	t.Parallel()
	on := run.Retention{Interval: run.Duration(time.Hour), Runs: run.RunsRetention{Keep: 3}}
	off := run.Retention{Interval: run.Duration(time.Hour)}
	for name, tt := range map[string]struct {
		retention run.Retention
		err       error
		want      []string
	}{
		"on":                {on, nil, []string{"start and signal retention retention-configured"}},
		"off":               {off, nil, []string{"signal retention retention-configured"}},
		"off_and_not_there": {off, serviceerror.NewNotFound("no workflow"), []string{"signal retention retention-configured"}},
		"temporal_is_away":  {on, errors.New("out of reach"), []string{"start and signal retention retention-configured"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &retentionCalls{err: tt.err}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				done <- maintenance.NewRetentionSupervisor(c, tt.retention, slog.New(slog.DiscardHandler)).Run(ctx)
			}()
			testenv.Await(t, func() (bool, string) {
				c.mu.Lock()
				defer c.mu.Unlock()
				return len(c.asked) > 0, "nothing was asked"
			})
			cancel()
			require.NoError(t, <-done)
			require.Equal(t, tt.want, c.asked)
			require.Equal(t, []any{tt.retention}, c.settings)
		})
	}
}
