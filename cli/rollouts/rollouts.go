// Package rollouts has the commands on the rollouts of fleets.
package rollouts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/internal/retry"
	"github.com/drover-run/drover/run"
)

// Deps holds what the commands share with the other commands on fleets. Every
// field is required.
type Deps struct {
	Env    session.Env
	Conn   *session.Connection
	Output *render.Format
	// Complete completes the name of a fleet.
	Complete cobra.CompletionFunc
}

// Command returns the command rollout.
func Command(deps Deps) *cobra.Command {
	c := &cobra.Command{
		Use: "rollout", Short: "Show, undo, pause and resume the rollout of a fleet",
		Long: `A change of the plugin, the plugin_config, the connector_config, the bootstrap or the instance_ready_command of a fleet is a new
revision. Its rollout replaces the instances, within the bounds of the setting update. An instance with tasks finishes them.`,
		Example: `  drover fleets rollout status linux --wait --timeout 30m
  drover fleets rollout history linux
  drover fleets rollout undo linux`,
	}
	command.Parent(c)
	c.AddCommand(
		statusCommand(deps), historyCommand(deps), undoCommand(deps),
		actionCommand(deps, "pause", "Pause a rollout: replace no more instances", "rollout paused", (*remote.Client).PauseFleetRollout),
		actionCommand(deps, "resume", "Resume a rollout that was paused, or that failed", "rollout resumed", (*remote.Client).ResumeFleetRollout),
	)
	return c
}

// pollInterval is the interval at which a rollout is read while it is awaited.
const pollInterval = 500 * time.Millisecond

// errTimeout is the cause if a rollout is not complete in time.
var errTimeout = errors.New("the timeout has passed")

func statusCommand(deps Deps) *cobra.Command {
	wait, timeout := false, time.Duration(0)
	c := &cobra.Command{
		Use: "status NAME", Short: "Show how far the rollout of a fleet is",
		Long: `Shows how many instances have the current revision of a fleet. The command exits with 1 if the rollout failed: it stops after
three failures in a row to create instances. With --wait it returns when the rollout is complete, and exits with 1 if it
fails, or is not complete in time.`,
		Example: "  drover fleets rollout status linux\n  drover fleets rollout status linux --wait --timeout 30m",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: deps.Complete,
		RunE: func(c *cobra.Command, args []string) error {
			if timeout < 0 || timeout > 0 && !wait {
				return command.Invalid("--timeout is a positive duration, and needs --wait")
			}
			client, err := deps.Conn.Open()
			if err != nil {
				return err
			}
			ctx := c.Context()
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeoutCause(ctx, timeout, errTimeout)
				defer cancel()
			}
			return deps.status(ctx, client, args[0], wait)
		},
	}
	c.Flags().BoolVar(&wait, "wait", false, "wait until the rollout is complete or failed")
	c.Flags().DurationVar(&timeout, "timeout", 0, "with --wait: how long to wait (default: no limit)")
	return c
}

// status prints the status of a rollout, and with wait each change of it.
func (d Deps) status(ctx context.Context, client *remote.Client, name string, wait bool) error {
	previous := ""
	for {
		answer, err := client.FleetRollout(ctx, name)
		if err != nil {
			if context.Cause(ctx) == errTimeout { //nolint:errorlint // the cause itself
				return d.timedOut(name)
			}
			return err
		}
		r := answer.Value
		done := !wait || r.Phase == api.FleetRolloutPhase(run.RolloutComplete) || r.Phase == api.FleetRolloutPhase(run.RolloutFailed)
		text := sentence(name, r)
		switch {
		case *d.Output == render.AsJSON && done:
			err = render.JSON(d.Env.Stdout, answer.Raw)
		case *d.Output != render.AsJSON && text != previous:
			_, err = fmt.Fprintln(d.Env.Stdout, text)
		}
		if err != nil {
			return err
		}
		if done {
			if r.Phase == api.FleetRolloutPhase(run.RolloutFailed) {
				return command.Exit(command.ExitFailed)
			}
			return nil
		}
		previous = text
		if err := retry.Sleep(ctx, pollInterval); err != nil {
			if context.Cause(ctx) == errTimeout { //nolint:errorlint // the cause itself
				return d.timedOut(name)
			}
			return err
		}
	}
}

func (d Deps) timedOut(name string) error {
	if _, err := fmt.Fprintf(d.Env.Stderr, "the rollout of fleet %s is not complete: %s\n", name, errTimeout); err != nil {
		return err
	}
	return command.Exit(command.ExitFailed)
}

// sentence describes a rollout.
func sentence(name string, r api.FleetRollout) string {
	text := fmt.Sprintf("fleet %s: the rollout of revision %d is %s", name, r.Revision, r.Phase)
	if r.ObservedRevision == r.Revision {
		text += fmt.Sprintf("; updated %d (%d ready), outdated %d", r.Updated, r.Ready, r.Outdated)
	}
	if r.Message != "" {
		text += ": " + r.Message
	}
	return text
}

func historyCommand(deps Deps) *cobra.Command {
	return &cobra.Command{
		Use: "history NAME", Short: "List the last revisions of a fleet",
		Long:    "Lists the last 10 revisions of a fleet, the current one first. Credentials are not shown.",
		Example: "  drover fleets rollout history linux\n  drover fleets rollout history linux -o json",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: deps.Complete,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := deps.Conn.Open()
			if err != nil {
				return err
			}
			answer, err := client.FleetRollout(c.Context(), args[0])
			if err != nil {
				return err
			}
			if *deps.Output == render.AsJSON {
				return render.JSON(deps.Env.Stdout, answer.Raw)
			}
			t := render.NewTable(deps.Env.Stdout, "REVISION", "AGE", "BY", "INSTANCES", "PLUGIN", "PLUGIN_CONFIG")
			for _, r := range answer.Value.Revisions {
				t.Row(strconv.Itoa(r.Number), deps.Env.Ago(r.CreatedAt), r.By, strconv.Itoa(r.Instances), r.Settings.Plugin, oneLine(r.Settings.PluginConfig))
			}
			return t.Flush()
		},
	}
}

func oneLine(text json.RawMessage) string {
	if len(text) == 0 || string(text) == "null" {
		return ""
	}
	return string(text)
}

func undoCommand(deps Deps) *cobra.Command {
	to, reason := 0, ""
	c := &cobra.Command{
		Use: "undo NAME", Short: "Go back to the settings of an earlier revision of a fleet",
		Long: `Makes the settings of an earlier revision the current ones, as a new revision, and rolls it out. Instances that still have that
revision stay. Other settings, such as max_instances, do not change.`,
		Example: "  drover fleets rollout undo linux\n  drover fleets rollout undo linux --to-revision 3 --reason \"the image does not boot\"",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: deps.Complete,
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("to-revision") && to < 1 {
				return command.Invalid("--to-revision is the number of a revision, from 1")
			}
			client, err := deps.Conn.Open()
			if err != nil {
				return err
			}
			answer, err := client.UndoFleetRollout(c.Context(), args[0], api.FleetUndo{ToRevision: to, Reason: reason})
			return deps.print(answer, err, fmt.Sprintf("rolls out revision %d", answer.Value.Revision))
		},
	}
	c.Flags().IntVar(&to, "to-revision", 0, "the revision to go back to (default: the one before the current one)")
	c.Flags().StringVar(&reason, "reason", "", "reason, shown with the events of the fleet")
	return c
}

func actionCommand(
	deps Deps, verb, short, message string,
	call func(*remote.Client, context.Context, string, api.FleetReason) (remote.Answer[api.Fleet], error),
) *cobra.Command {
	reason := ""
	c := &cobra.Command{
		Use: verb + " NAME", Short: short, Example: fmt.Sprintf("  drover fleets rollout %s linux --reason \"the image is being checked\"", verb),
		Args: cobra.ExactArgs(1), ValidArgsFunction: deps.Complete,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := deps.Conn.Open()
			if err != nil {
				return err
			}
			answer, err := call(client, c.Context(), args[0], api.FleetReason{Reason: reason})
			return deps.print(answer, err, message)
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "reason, shown with the events of the fleet")
	return c
}

func (d Deps) print(answer remote.Answer[api.Fleet], err error, message string) error {
	if err != nil {
		return err
	}
	if *d.Output == render.AsJSON {
		return render.JSON(d.Env.Stdout, answer.Raw)
	}
	_, err = fmt.Fprintf(d.Env.Stdout, "fleet %s: %s\n", answer.Value.Name, message)
	return err
}
