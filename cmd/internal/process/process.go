// Package process has what the processes of Drover have in common, whichever
// program they are started by: their configuration, logs, metrics, parts and
// Temporal client.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync/atomic"

	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/worker"

	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/logging"
	"github.com/drover-run/drover/internal/version"
	"github.com/drover-run/drover/run"
)

// Process is the state that the parts of a process share.
type Process struct {
	Logger    *slog.Logger
	Telemetry *Telemetry
	Stages    *Stages

	ready atomic.Pointer[func(context.Context) error] // see ReadyIf; nil while the process starts
}

// New returns the state that the parts of a process share.
func New(ctx context.Context, cfg config.Config, w io.Writer) (*Process, error) {
	// By default the SDK reads the whole executable, to identify it by a checksum. That
	// is a third of the time that drover needs to start.
	worker.SetBinaryChecksum(version.String())
	logger := newLogger(cfg.Log, w)
	for _, unknown := range config.UnknownVariables(os.Environ()) {
		logger.WarnContext(ctx, "ignored an environment variable", "reason", unknown)
	}
	telemetry, err := newTelemetry()
	if err != nil {
		return nil, err
	}
	return &Process{Logger: logger, Telemetry: telemetry, Stages: newStages(ctx, logger)}, nil
}

// Finish waits for the end of a process whose parts were all added. If err is not
// nil, it stops the parts that were added. Then it calls the closers.
func (p *Process) Finish(ctx context.Context, err error, closers ...func() error) error {
	if err == nil {
		err = p.Stages.wait(ctx)
	} else {
		p.Stages.stop()
	}
	for _, c := range closers {
		err = errors.Join(err, c())
	}
	return err
}

// Announce prints the line by which people and scripts learn that a process is
// ready. All its listeners are open by then.
func Announce(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "ready: "+format+"\n", args...)
}

var errStarting = errors.New("the process is starting")

// AddTelemetry serves metrics and health checks if the configuration has an
// address for them. It comes before the parts that begin to work, so that a process
// whose address is in use takes no tasks and does not announce itself.
func (p *Process) AddTelemetry(ctx context.Context, cfg config.Telemetry) error {
	if cfg.Listen == "" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen at telemetry.listen: %w", err)
	}
	p.Stages.Add("telemetry", func(ctx context.Context) error {
		return p.Telemetry.serve(ctx, listener, p.checkReady, p.Logger)
	})
	return nil
}

// ReadyIf makes /readyz answer what check returns. Until then the process is starting,
// and not ready.
func (p *Process) ReadyIf(check func(context.Context) error) { p.ready.Store(&check) }

func (p *Process) checkReady(ctx context.Context) error {
	if check := p.ready.Load(); check != nil {
		return (*check)(ctx)
	}
	return errStarting
}

// StartCommand returns the command that starts one of the processes of an
// installation. kinds is the list of processes for the help.
func StartCommand(kinds, example string, processes ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Run one process of Drover: " + kinds,
		Long: `Run one process of Drover in the foreground. An installation has gateways, control workers and executors,
and it may have fleet workers and relays. drover dev is all of them in one process.`,
		Example: example,
	}
	cmd.AddCommand(processes...)
	for _, c := range processes {
		c.RunE = Interruptible(c.RunE)
	}
	return cmd
}

// Interruptible makes a command succeed that is interrupted while it starts, as it
// does when it is interrupted later.
func Interruptible(process func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := process(cmd, args)
		if err == nil || cmd.Context().Err() == nil {
			return err
		}
		if _, ok := errors.AsType[*serviceerror.Canceled](err); ok || errors.Is(err, context.Canceled) || run.CodeOf(err) == run.CodeCanceled {
			return nil
		}
		return err
	}
}

func newLogger(cfg config.Log, w io.Writer) *slog.Logger {
	level := slog.LevelInfo
	_ = level.UnmarshalText([]byte(cfg.Level)) // the level was validated
	return logging.New(w, cfg.Format, level)
}
