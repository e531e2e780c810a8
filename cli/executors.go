package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/remote"
)

// registryFlags are shared by all commands on executors, and by all on pools.
type registryFlags struct {
	env    Env
	conn   *connection
	output format
}

func newRegistryFlags(env Env, c *cobra.Command) *registryFlags {
	f := &registryFlags{env: env, conn: &connection{env: env}}
	parent(c)
	f.conn.addTo(c)
	f.output.addTo(c, formatTable)
	return f
}

func executorsCommand(env Env) *cobra.Command {
	c := &cobra.Command{
		Use: "executors", Short: "Look at executors, drain and remove them",
		Example: `  drover executors list
  drover executors get host-7-shell
  drover executors drain host-7-shell --reason "new kernel"
  drover executors remove host-7-shell --reason "its disk burnt"`,
	}
	f := newRegistryFlags(env, c)
	c.AddCommand(listExecutorsCommand(f), getExecutorCommand(f), drainExecutorsCommand(f), resumeExecutorsCommand(f), removeExecutorsCommand(f))
	return c
}

func listExecutorsCommand(f *registryFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the executors that are not removed", Example: "  drover executors list -o json",
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := f.conn.open()
			if err != nil {
				return err
			}
			answer, err := client.Executors(c.Context())
			if err != nil {
				return err
			}
			if f.output == formatJSON {
				return printJSON(f.env.Stdout, answer.Raw)
			}
			t := newTable(f.env.Stdout, "ID", "POOL", "DRIVER", "SET", "STATE", "SLOTS", "TASKS", "LABELS", "LAST CONTACT", "VERSION")
			for _, e := range answer.Value.Executors {
				t.row(e.ID, e.Pool, e.Driver, e.Set, executorState(e), used(e.SlotsUsed, e.Slots), strconv.Itoa(e.Tasks), pairs(e.Labels),
					f.env.ago(e.LastContact), e.Version)
			}
			return t.flush()
		},
	}
}

// executorState tells in a word how an executor stands.
func executorState(e api.Executor) string {
	if e.Drained {
		return "drained"
	}
	return string(e.State)
}

func getExecutorCommand(f *registryFlags) *cobra.Command {
	return &cobra.Command{
		Use: "get ID", Short: "Show an executor, and the tasks that it has", Example: "  drover executors get host-7-shell",
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeExecutors(f.conn, 1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.conn.open()
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
	if f.output == formatJSON {
		return printJSON(f.env.Stdout, answer.Raw)
	}
	e := answer.Value
	t := newTable(f.env.Stdout)
	t.field("id", e.ID)
	t.field("pool", e.Pool)
	t.field("driver", e.Driver)
	t.field("platform", e.OS+"/"+e.Arch)
	t.field("labels", pairs(e.Labels))
	t.field("privileged", strconv.FormatBool(e.Privileged))
	t.field("set", e.Set)
	if e.Temporary {
		t.field("temporary", "removed after "+e.RemoveAfter+" out of contact")
	}
	t.field("state", executorState(e))
	t.field("reason", e.Reason)
	t.field("slots", used(e.SlotsUsed, e.Slots))
	t.field("tasks", strconv.Itoa(e.Tasks))
	t.field("registered", f.env.clock(e.RegisteredAt))
	t.field("last contact", f.env.ago(e.LastContact))
	t.field("removed", f.env.clock(e.RemovedAt))
	t.field("version", e.Version)
	if err := t.flush(); err != nil || len(e.Held) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(f.env.Stdout); err != nil {
		return err
	}
	t = newTable(f.env.Stdout, "RUN", "TASK", "ATTEMPT", "STARTED", "REASON")
	for _, h := range e.Held {
		t.row(h.Run, h.Task, strconv.Itoa(h.Attempt), f.env.ago(h.StartedAt), h.Reason)
	}
	return t.flush()
}

func drainExecutorsCommand(f *registryFlags) *cobra.Command {
	reason := ""
	c := f.executorsCall("drain ID...", "Have executors take no more tasks",
		`Has executors take no more tasks; those that they have go on. It holds at once, and outlives their processes, until drover
executors resume. An executor shows as drained when it has nothing left.`,
		`  drover executors drain host-7-shell --reason "new kernel"`,
		func(c *cobra.Command, client *remote.Client, id string) (remote.Answer[api.Executor], string, error) {
			answer, err := client.DrainExecutor(c.Context(), id, api.Drain{Reason: reason})
			return answer, "drains, " + count(answer.Value.Tasks, "task") + " left", err
		})
	c.Flags().StringVar(&reason, "reason", "", "why, for those who see it")
	return c
}

func resumeExecutorsCommand(f *registryFlags) *cobra.Command {
	return f.executorsCall("resume ID...", "Have executors take tasks again", "", "  drover executors resume host-7-shell",
		func(c *cobra.Command, client *remote.Client, id string) (remote.Answer[api.Executor], string, error) {
			answer, err := client.DrainExecutor(c.Context(), id, api.Drain{Resume: true})
			return answer, "takes tasks again", err
		})
}

func removeExecutorsCommand(f *registryFlags) *cobra.Command {
	var params api.RemoveExecutorParams
	c := f.executorsCall("remove ID...", "Remove executors for good, and end the wait for their tasks",
		`Removes executors for good. The wait for their tasks ends: each fails, or begins another attempt, as its on_executor_lost
says. Tasks of a set go on with its other members. An id that was removed never registers again: a process that comes back with
it stops and removes what it holds.

An executor that is in contact and has tasks is not removed, unless with --force: it stops them as soon as it hears of it, within
seconds, and another attempt may have begun by then.`,
		`  drover executors remove host-7-shell --reason "its disk burnt"`,
		func(c *cobra.Command, client *remote.Client, id string) (remote.Answer[api.Executor], string, error) {
			answer, err := client.RemoveExecutor(c.Context(), id, params)
			return answer, "removed, it had " + count(answer.Value.Tasks, "task"), err
		})
	c.Flags().StringVar(&params.Reason, "reason", "", "why, for those who read what became of its tasks")
	c.Flags().BoolVar(&params.Force, "force", false, "also one that is in contact and has tasks")
	return c
}

// executorsCall makes a command that makes one call on each executor. The call
// returns what to say of it.
func (f *registryFlags) executorsCall(
	use, short, long, example string, call func(*cobra.Command, *remote.Client, string) (remote.Answer[api.Executor], string, error),
) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: long, Example: example,
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: completeExecutors(f.conn, 0),
		RunE: func(c *cobra.Command, ids []string) error {
			client, err := f.conn.open()
			if err != nil {
				return err
			}
			return each(ids, func(id string) error {
				answer, said, err := call(c, client, id)
				if err != nil {
					return err
				}
				if f.output == formatJSON {
					return printJSON(f.env.Stdout, answer.Raw)
				}
				_, err = fmt.Fprintf(f.env.Stdout, "executor %s %s\n", id, said)
				return err
			})
		},
	}
}

func used(n, of int) string { return fmt.Sprintf("%d/%d", n, of) }
