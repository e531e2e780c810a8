package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/run"
)

// registryFlags are shared by all commands on executors, pools and fleets.
type registryFlags struct {
	env    session.Env
	conn   *session.Connection
	output render.Format
}

func newRegistryFlags(env session.Env, c *cobra.Command) *registryFlags {
	f := &registryFlags{env: env, conn: session.New(env)}
	command.Parent(c)
	f.conn.AddTo(c)
	f.output.AddTo(c, render.AsTable)
	return f
}

func executorsCommand(env session.Env) *cobra.Command {
	c := &cobra.Command{
		Use: "executors", Short: "Show, drain and delete executors",
		Example: `  drover executors list
  drover executors get host-7-shell
  drover executors drain host-7-shell --reason "new kernel"
  drover executors delete host-7-shell --reason "disk failure"`,
	}
	f := newRegistryFlags(env, c)
	c.AddCommand(listExecutorsCommand(f), getExecutorCommand(f), drainExecutorsCommand(f), resumeExecutorsCommand(f), deleteExecutorsCommand(f))
	return c
}

func listExecutorsCommand(f *registryFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the executors that are not deleted", Example: "  drover executors list -o json",
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			answer, err := client.Executors(c.Context())
			if err != nil {
				return err
			}
			if f.output == render.AsJSON {
				return render.JSON(f.env.Stdout, answer.Raw)
			}
			t := render.NewTable(f.env.Stdout, "ID", "POOL", "DRIVER", "SET", "STATE", "SLOTS", "TASKS", "LABELS", "LAST CONTACT", "VERSION")
			for _, e := range answer.Value.Executors {
				t.Row(e.ID, e.Pool, e.Driver, e.Set, executorState(e), fraction(e.SlotsUsed, e.Slots), strconv.Itoa(e.Tasks), pairs(e.Labels),
					f.env.Ago(e.LastContact), e.Version)
			}
			return t.Flush()
		},
	}
}

// executorState returns the state of an executor for the table.
func executorState(e api.Executor) string {
	if e.Drained {
		return "drained"
	}
	return string(e.State)
}

func getExecutorCommand(f *registryFlags) *cobra.Command {
	return &cobra.Command{
		Use: "get ID", Short: "Show an executor and its tasks", Example: "  drover executors get host-7-shell",
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeExecutors(f.conn, 1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			answer, err := client.Executor(c.Context(), args[0])
			if err != nil {
				return err
			}
			return f.printExecutor(answer)
		},
	}
}

func (f *registryFlags) printExecutor(answer remote.Answer[api.Executor]) error {
	if f.output == render.AsJSON {
		return render.JSON(f.env.Stdout, answer.Raw)
	}
	e := answer.Value
	t := render.NewTable(f.env.Stdout)
	t.Field("id", e.ID)
	t.Field("pool", e.Pool)
	t.Field("driver", e.Driver)
	t.Field("platform", e.OS+"/"+e.Arch)
	t.Field("labels", pairs(e.Labels))
	t.Field("privileged", strconv.FormatBool(e.Privileged))
	t.Field("set", e.Set)
	if e.Temporary {
		t.Field("temporary", "removed after "+e.RemoveAfter+" out of contact")
	}
	t.Field("state", executorState(e))
	t.Field("reason", e.Reason)
	t.Field("slots", fraction(e.SlotsUsed, e.Slots))
	if r := e.Resources; r != nil {
		t.Field("resources", run.ShownLabels(run.Resources{CPU: r.CPU, Memory: r.Memory, GPUs: r.GPUs}.Labels()))
	}
	t.Field("tasks", strconv.Itoa(e.Tasks))
	t.Field("registered", f.env.Clock(e.RegisteredAt))
	t.Field("last contact", f.env.Ago(e.LastContact))
	t.Field("removed", f.env.Clock(e.RemovedAt))
	t.Field("version", e.Version)
	if e.Features != nil {
		t.Field("features", strings.Join(texts(e.Features), ", "))
	}
	if err := t.Flush(); err != nil || len(e.Held) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(f.env.Stdout); err != nil {
		return err
	}
	t = render.NewTable(f.env.Stdout, "RUN", "TASK", "ATTEMPT", "STARTED", "REASON")
	for _, h := range e.Held {
		t.Row(h.Run, h.Task, strconv.Itoa(h.Attempt), f.env.Ago(h.StartedAt), h.Reason)
	}
	return t.Flush()
}

func drainExecutorsCommand(f *registryFlags) *cobra.Command {
	reason := ""
	c := f.executorsCall("drain ID...", "Stop executors from taking tasks",
		`Drains executors: they take no more tasks, and their running tasks continue. A drain takes effect immediately and survives a
restart of the executor, until drover executors resume. An executor is shown as drained when it has no task left.`,
		`  drover executors drain host-7-shell --reason "new kernel"`,
		func(c *cobra.Command, client *remote.Client, id string) (remote.Answer[api.Executor], string, error) {
			answer, err := client.DrainExecutor(c.Context(), id, api.Drain{Reason: reason})
			return answer, "drains, " + count(answer.Value.Tasks, "task") + " left", err
		})
	c.Flags().StringVar(&reason, "reason", "", "reason, shown with the executor")
	return c
}

func resumeExecutorsCommand(f *registryFlags) *cobra.Command {
	return f.executorsCall("resume ID...", "End the drain of executors", "", "  drover executors resume host-7-shell",
		func(c *cobra.Command, client *remote.Client, id string) (remote.Answer[api.Executor], string, error) {
			answer, err := client.DrainExecutor(c.Context(), id, api.Drain{Resume: true})
			return answer, "resumed", err
		})
}

func deleteExecutorsCommand(f *registryFlags) *cobra.Command {
	var params api.RemoveExecutorParams
	c := f.executorsCall("delete ID...", "Delete executors permanently, and end their tasks",
		`Deletes executors permanently. Each of their tasks fails or begins another attempt, according to its on_executor_lost. Other
members of an executor set adopt the tasks of a member. The id of a deleted executor cannot register again: a process with this
id stops its tasks and removes their environments.

An executor that is in contact and has tasks is deleted only with --force. It stops its tasks when it learns of the deletion,
within seconds, and another attempt may have begun by then.`,
		`  drover executors delete host-7-shell --reason "disk failure"`,
		func(c *cobra.Command, client *remote.Client, id string) (remote.Answer[api.Executor], string, error) {
			answer, err := client.RemoveExecutor(c.Context(), id, params)
			return answer, "deleted, it had " + count(answer.Value.Tasks, "task"), err
		})
	c.Flags().StringVar(&params.Reason, "reason", "", "reason, shown with the ended tasks")
	c.Flags().BoolVar(&params.Force, "force", false, "delete executors that are in contact and have tasks, too")
	return c
}

// executorsCall returns a command that makes one call for each executor. The call
// returns the message to print.
func (f *registryFlags) executorsCall(
	use, short, long, example string, call func(*cobra.Command, *remote.Client, string) (remote.Answer[api.Executor], string, error),
) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: long, Example: example,
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: completeExecutors(f.conn, 0),
		RunE: func(c *cobra.Command, ids []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			return forEach(ids, func(id string) error {
				answer, message, err := call(c, client, id)
				if err != nil {
					return err
				}
				if f.output == render.AsJSON {
					return render.JSON(f.env.Stdout, answer.Raw)
				}
				_, err = fmt.Fprintf(f.env.Stdout, "executor %s %s\n", id, message)
				return err
			})
		},
	}
}

func fraction(n, of int) string { return fmt.Sprintf("%d/%d", n, of) }
