package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/run"
)

func startCommand(f *runsFlags) *cobra.Command {
	return f.actionCommand(&cobra.Command{
		Use: "start ID...", Short: "Start queued runs with manual admission", Example: "  drover runs start 01k8z3m6w4v6q2d1c9x7b5a3n1",
	}, (*remote.Client).Start, nil)
}

func stopCommand(f *runsFlags) *cobra.Command {
	force, killed := false, make(map[string]bool)
	c := f.actionCommand(&cobra.Command{
		Use: "stop ID...", Short: "Stop runs, running or queued",
		Long: `Stops runs. A queued run is cancelled at once. A running run is finished when its last task has stopped; the command does not
wait for that (drover runs get ID --follow does). Before that, steps with "when: always" or "when: on_stop" clean up, for at most the cleanup_timeout of their
task, and tasks with "finally: true" run. A second stop, or --force, kills the tasks and ends both at once.`,
		Example: "  drover runs stop 01k8z3m6w4v6q2d1c9x7b5a3n1\n  drover runs stop --force 01k8z3m6w4v6q2d1c9x7b5a3n1",
	}, func(client *remote.Client, ctx context.Context, id, token string) (remote.Answer[api.Run], error) {
		answer, forced, err := stopRun(ctx, client, id, token, force)
		killed[id] = forced
		return answer, err
	}, func(r api.Run) string {
		switch {
		case r.Phase != api.PhaseRunning:
			return ""
		case killed[r.ID]:
			return "stopping: its tasks are killed"
		}
		return "stopping"
	})
	c.Flags().BoolVar(&force, "force", false, "kill the tasks, without a cleanup")
	return c
}

// stopRun stops a running run, and cancels a queued one, also if it starts at the same
// time; a stop of a run that is being stopped already is forced. That decision is the
// client's: a call that is only repeated, since its answer was lost, must not end a
// cleanup. It also returns whether the stop is forced.
func stopRun(ctx context.Context, client *remote.Client, id, token string, force bool) (answer remote.Answer[api.Run], forced bool, err error) {
	known, err := client.Run(ctx, id)
	if err != nil {
		return known, false, err
	}
	queued, running := known.Value.Phase == api.PhaseQueued, known.Value.Phase == api.PhaseRunning
	force = force || running && known.Value.StopRequested
	answer, err = client.Stop(ctx, id, api.RunStop{ChangegroupToken: token, Force: force, CancelQueued: !running})
	if run.CodeOf(err) != run.CodeWrongPhase || !running && !queued {
		return answer, force, err
	}
	// Another call may have ended it since it was read: then it has ended as asked.
	now, readErr := client.Run(ctx, id)
	if readErr == nil && (now.Value.Phase == api.PhaseCancelled || now.Value.Phase == api.PhaseFinished && now.Value.StopRequested) {
		return now, force, nil
	}
	return answer, force, err
}

func cancelCommand(f *runsFlags) *cobra.Command {
	return f.actionCommand(&cobra.Command{
		Use: "cancel ID...", Short: "Cancel queued runs", Example: "  drover runs cancel 01k8z3m6w4v6q2d1c9x7b5a3n1",
	}, (*remote.Client).Cancel, nil)
}

// actionCommand returns a command that makes one call for each run. Unless state is nil
// or returns "", it says how the run is, in place of its phase.
func (f *runsFlags) actionCommand(
	c *cobra.Command, call func(client *remote.Client, ctx context.Context, id, token string) (remote.Answer[api.Run], error),
	state func(api.Run) string,
) *cobra.Command {
	token := ""
	addToken(c, &token)
	c.Args = cobra.MinimumNArgs(1)
	c.ValidArgsFunction = f.completeRun(0)
	c.RunE = func(c *cobra.Command, ids []string) error {
		if err := checkToken(token, ids); err != nil {
			return err
		}
		client, err := f.conn.Open()
		if err != nil {
			return err
		}
		return forEach(ids, func(id string) error {
			answer, err := call(client, c.Context(), id, token)
			if err != nil {
				return err
			}
			if state != nil && f.output != render.AsJSON {
				if text := state(answer.Value); text != "" {
					_, err := fmt.Fprintf(f.env.Stdout, "run %s %s\n", answer.Value.ID, text)
					return err
				}
			}
			return f.printChanged(answer)
		})
	}
	return c
}

// forEach continues after an error, and returns all errors joined.
func forEach(ids []string, do func(string) error) error {
	var errs []error
	for _, id := range ids {
		if err := do(id); err != nil {
			if len(ids) > 1 {
				err = fmt.Errorf("%s: %w", id, err)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func addToken(c *cobra.Command, token *string) {
	c.Flags().StringVar(token, "changegroup-token", "", "update token: succeed only if its change groups are unchanged since the token was read")
	_ = c.RegisterFlagCompletionFunc("changegroup-token", cobra.NoFileCompletions)
}

// checkToken refuses a token for several calls: the first call invalidates it.
func checkToken(token string, names []string) error {
	if token != "" && len(names) > 1 {
		return command.Invalid("--changegroup-token is valid for one call: give one name, not %d", len(names))
	}
	return nil
}

func (f *runsFlags) printChanged(answer remote.Answer[api.Run]) error {
	if f.output == render.AsJSON {
		return render.JSON(f.env.Stdout, answer.Raw)
	}
	r := answer.Value
	text := string(r.Phase)
	if r.Reason != "" {
		text += ": " + render.Plain(r.Reason)
	}
	_, err := fmt.Fprintf(f.env.Stdout, "run %s %s\n", r.ID, text)
	return err
}

func approveCommand(f *runsFlags) *cobra.Command {
	token, comment := "", ""
	c := &cobra.Command{
		Use:               "approve ID TASK...",
		Short:             "Approve tasks that wait for approval",
		Long:              "Approves tasks that wait for approval. The approval counts for the name of the token.",
		Example:           "  drover runs approve 01k8z3m6w4v6q2d1c9x7b5a3n1 deploy",
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: f.completeTasks(waitsForApproval),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkToken(token, args[1:]); err != nil {
				return err
			}
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			return forEach(args[1:], func(task string) error {
				answer, err := client.Approve(c.Context(), args[0], task, api.TaskApprove{Comment: comment, ChangegroupToken: token})
				if err != nil {
					return err
				}
				if f.output == render.AsJSON {
					return render.JSON(f.env.Stdout, answer.Raw)
				}
				approval := answer.Value.Tasks[task].Approval
				_, err = fmt.Fprintf(f.env.Stdout, "%s approved (%d of %d)\n", task, len(approval.ApprovedBy), approval.Approvers)
				return err
			})
		},
	}
	c.Flags().StringVar(&comment, "comment", "", "why; the actions of the run have it")
	addToken(c, &token)
	return c
}

func rejectCommand(f *runsFlags) *cobra.Command {
	token, reason := "", ""
	c := &cobra.Command{
		Use:   "reject ID TASK...",
		Short: "Reject tasks that wait for approval",
		Long: `Rejects tasks that wait for approval: they fail with the reason, and never run. The rejection is recorded for the name of the
token.`,
		Example:           `  drover runs reject 01k8z3m6w4v6q2d1c9x7b5a3n1 deploy --reason "not during the freeze"`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: f.completeTasks(waitsForApproval),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkToken(token, args[1:]); err != nil {
				return err
			}
			if strings.TrimSpace(reason) == "" {
				return command.Invalid("--reason is missing: say why; people who follow the run see it")
			}
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			return forEach(args[1:], func(task string) error {
				answer, err := client.Reject(c.Context(), args[0], task, api.Rejection{Reason: reason, ChangegroupToken: token})
				if err != nil {
					return err
				}
				if f.output == render.AsJSON {
					return render.JSON(f.env.Stdout, answer.Raw)
				}
				_, err = fmt.Fprintf(f.env.Stdout, "%s rejected\n", task)
				return err
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why; the message of the task has it (required)")
	addToken(c, &token)
	return c
}

func waitsForApproval(t api.Task) bool { return t.Status == api.StatusWaitingApproval }

func annotateCommand(f *runsFlags) *cobra.Command {
	task, token, replace := "", "", false
	c := &cobra.Command{
		Use:   "annotate ID KEY=VALUE... [KEY-...]",
		Short: "Change the annotations of a run or of a task",
		Long: `Sets annotations of a run, or of a task with --task, and removes annotations given as KEY-. Other annotations stay, unless
--replace is given.`,
		Example: `  drover runs annotate 01k8z3m6w4v6q2d1c9x7b5a3n1 ticket=OPS-7 reviewed-
  drover runs annotate 01k8z3m6w4v6q2d1c9x7b5a3n1 --task build size=12M`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: f.completeRun(1),
		RunE: func(c *cobra.Command, args []string) error {
			set, remove, err := parseAnnotations(args[1:])
			if err != nil {
				return err
			}
			if len(args) == 1 && !replace {
				return command.Invalid("annotations are missing")
			}
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			if !replace {
				if set, err = mergeAnnotations(c.Context(), client, args[0], task, set, remove); err != nil {
					return err
				}
			}
			answer, err := client.Annotate(c.Context(), args[0], task, token, set)
			if err != nil {
				return err
			}
			if f.output == render.AsJSON {
				return render.JSON(f.env.Stdout, answer.Raw)
			}
			_, err = fmt.Fprintln(f.env.Stdout, pairs(set))
			return err
		},
	}
	addToken(c, &token)
	c.Flags().StringVar(&task, "task", "", "name of the task")
	c.Flags().BoolVar(&replace, "replace", false, "remove all other annotations")
	_ = c.RegisterFlagCompletionFunc("task", f.completeTaskFlag)
	return c
}

func parseAnnotations(args []string) (set map[string]string, remove []string, err error) {
	set = make(map[string]string)
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		switch {
		case ok && key != "":
			set[key] = value
		case !ok && len(arg) > 1 && strings.HasSuffix(arg, "-"):
			remove = append(remove, strings.TrimSuffix(arg, "-"))
		default:
			return nil, nil, command.Invalid("%q is neither KEY=VALUE nor KEY-", arg)
		}
	}
	return set, remove, nil
}

// mergeAnnotations returns the changed annotations. The gateway replaces all
// annotations, so one of two concurrent changes is lost.
func mergeAnnotations(
	ctx context.Context, client *remote.Client, id, task string, set map[string]string, remove []string,
) (map[string]string, error) {
	answer, err := client.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	all := map[string]string(answer.Value.Annotations)
	if task != "" {
		t, ok := answer.Value.Tasks[task]
		if !ok {
			return nil, noTask(answer.Value, task)
		}
		all = t.Annotations
	}
	if all == nil {
		all = make(map[string]string)
	}
	maps.Copy(all, set)
	for _, key := range remove {
		delete(all, key)
	}
	return all, nil
}

func isRunning(t api.Task) bool { return t.Status == api.StatusRunning }
