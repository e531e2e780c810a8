package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/cli/session"
)

func eventsCommand(env session.Env) *cobra.Command {
	conn, output := session.New(env), render.Format("")
	var q remote.EventQuery
	c := &cobra.Command{
		Use:   "events",
		Short: "Print events, one line for each",
		Long: `Prints events as lines of JSON, oldest first, and follows new events until Ctrl-C. Their numbers increase in the order of
commits: a client that resumes with --after misses no event.`,
		Example: `  drover events
  drover events --run 01k8z3m6w4v6q2d1c9x7b5a3n1 -o table
  drover events --group /project/42 --after 1200 | jq 'select(.phase == "finished")'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			if q.After < 0 {
				return command.Invalid("--after must not be negative")
			}
			client, err := conn.Open()
			if err != nil {
				return err
			}
			q.OnAvailability = reportAvailability(env)
			for e, err := range client.Events(c.Context(), q) {
				if errors.Is(err, context.Canceled) {
					return nil // an interrupt is the normal end
				}
				if err != nil {
					return err
				}
				if output == render.AsJSON {
					err = render.Line(env.Stdout, e)
				} else {
					_, err = fmt.Fprintln(env.Stdout, eventText(env, e))
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	flags := c.Flags()
	flags.StringVar(&q.Run, "run", "", "only events of this run")
	flags.StringVar(&q.Group, "group", "", "only events of this group, and of all groups below it")
	flags.Int64Var(&q.After, "after", 0, "begin after the event of this number")
	conn.AddTo(c)
	output.AddTo(c, render.AsJSON)
	_ = c.RegisterFlagCompletionFunc("run", func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return runIDs(c, conn)
	})
	return c
}

// reportAvailability returns a function that reports once that the gateway is
// unavailable, and once that it is available again.
func reportAvailability(env session.Env) func(error) {
	away := false
	return func(err error) {
		switch {
		case err == nil:
			_, _ = fmt.Fprintln(env.Stderr, "drover: the gateway is back")
		case !away:
			_, _ = fmt.Fprintf(env.Stderr, "drover: the gateway is away, trying again: %v\n", err)
		}
		away = err != nil
	}
}

func eventText(env session.Env, e api.Event) string {
	text := fmt.Sprintf("%d  %s  %s  ", e.Number, env.Clock(e.Time), e.Run)
	switch e.Type {
	case api.EventTypeApprovalWanted:
		text += e.Task + " wants approval"
	case api.EventTypeTask, api.EventTypeStage:
		text += fmt.Sprintf("%s %s", e.Task, render.TaskStatus(e.Status, e.Stage))
		if e.Executor != "" {
			text += " on " + e.Executor
		}
		if e.Attempt > 1 {
			text += fmt.Sprintf(" (attempt %d)", e.Attempt)
		}
	case api.EventTypeRun, api.EventTypeExec:
		text += fmt.Sprintf("%s, %s", e.Phase, e.Result)
	}
	if e.Action != "" {
		text += fmt.Sprintf(" (%s)", byActor(string(e.Action), e.Actor))
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return render.Plain(text)
}
