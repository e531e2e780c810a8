package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"

	"github.com/drover-run/drover/cli"
	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/run"
)

// processCommands are the commands that run processes, and the commands that
// maintain their keys, tokens and configuration.
func processCommands() []*cobra.Command {
	dev, start := devCommand(), startCommand()
	dev.GroupID, start.GroupID = cli.GroupProcess, cli.GroupProcess
	dev.RunE = interruptible(dev.RunE)
	commands := []*cobra.Command{dev, start, tokensCommand(), keysCommand(), recordsCommand(), healthCommand(), configCommand()}
	for _, c := range start.Commands() {
		commands = append(commands, cli.Renamed(c.Name(), "start "+c.Name()))
	}
	return append(commands, cli.Renamed("fleet", "start fleet-worker"), cli.Renamed("token", "tokens create", "key", "keys create relay"))
}

// startCommand starts one of the processes of an installation.
func startCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Run one process of Drover: gateway, control, executor, fleet-worker, relay or temporal",
		Long: `Run one process of Drover in the foreground. An installation has gateways, control workers and executors,
and it may have fleet workers and relays. drover dev is all of them in one process.`,
		Example: "  drover start gateway --config /etc/drover.yaml\n  drover start executor --config /etc/drover/executor.yaml",
	}
	cmd.AddCommand(gatewayCommand(), controlCommand(), executorCommand(), fleetWorkerCommand(), relayCommand(), temporalCommand())
	for _, c := range cmd.Commands() {
		c.RunE = interruptible(c.RunE)
	}
	return cmd
}

// interruptible makes a command succeed that is interrupted while it starts, as it
// does when it is interrupted later.
func interruptible(process func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
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

// settingFlags maps flags of a command to settings.
type settingFlags struct {
	file string
	keys map[string]string // key of the setting, by flag
	list map[string]*[]string
}

// configFlags adds --config and the named flags to a command. A flag overrides a
// setting of the file and of the environment.
func configFlags(cmd *cobra.Command, keys map[string]string, usage map[string]string) *settingFlags {
	f := &settingFlags{keys: keys, list: map[string]*[]string{}}
	cmd.Flags().StringVar(&f.file, "config", "", "YAML file with the configuration; the environment (DROVER_GATEWAY__LISTEN and so on) and flags override it")
	defaults := config.Default()
	for flag, key := range keys {
		value := defaults.Value(key)
		if flag == "executor" {
			var values []string
			f.list[flag] = &values
			cmd.Flags().StringSliceVar(&values, flag, nil, usage[flag])
			continue
		}
		cmd.Flags().String(flag, value, usage[flag])
	}
	return f
}

// load reads the configuration of a command and validates it for the given parts.
func (f *settingFlags) load(cmd *cobra.Command, parts ...config.Part) (config.Config, error) {
	flags := map[string]string{}
	for flag, key := range f.keys {
		if !cmd.Flags().Changed(flag) {
			continue
		}
		if values, ok := f.list[flag]; ok {
			flags[key] = strings.Join(*values, ",")
			continue
		}
		flags[key] = cmd.Flags().Lookup(flag).Value.String()
	}
	cfg, err := config.Load(config.Source{File: f.file, Environ: os.Environ(), Flags: flags})
	if err != nil {
		return config.Config{}, cli.UsageError(err)
	}
	if err := cfg.Validate(parts...); err != nil {
		return config.Config{}, cli.UsageError(err)
	}
	return cfg, nil
}

func newLogger(cfg config.Log, w io.Writer) *slog.Logger {
	level := slog.LevelInfo
	_ = level.UnmarshalText([]byte(cfg.Level)) // the level was validated
	options := &slog.HandlerOptions{Level: level}
	if cfg.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// newProcess returns the state that the parts of a process share.
func newProcess(ctx context.Context, cfg config.Config, w io.Writer) (*process, error) {
	logger := newLogger(cfg.Log, w)
	telemetry, err := newTelemetry()
	if err != nil {
		return nil, err
	}
	return &process{logger: logger, telemetry: telemetry, stages: newStages(ctx, logger)}, nil
}

// finish waits for the end of a process whose parts were all added. If err is not
// nil, it stops the parts that were added. Then it calls the closers.
func (p *process) finish(ctx context.Context, err error, closers ...func() error) error {
	if err == nil {
		err = p.stages.wait(ctx)
	} else {
		p.stages.stop()
	}
	for _, c := range closers {
		err = errors.Join(err, c())
	}
	return err
}

// announce prints the line by which people and scripts learn that a process is
// ready.
func announce(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "ready: "+format+"\n", args...)
}
