package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/run"
)

// groupsFlags are shared by all commands on change groups.
type groupsFlags struct {
	env    Env
	conn   *connection
	output format
}

func changeGroupsCommand(env Env) *cobra.Command {
	f := &groupsFlags{env: env, conn: &connection{env: env}}
	c := &cobra.Command{
		Use:   "changegroups",
		Short: "Limit how many runs go on at once, and see who holds and who waits",
		Example: `  drover changegroups set deploys --max-running 1
  drover changegroups get deploys`,
	}
	parent(c)
	f.conn.addTo(c)
	f.output.addTo(c, formatTable)
	c.AddCommand(f.listCommand(), f.getCommand(), f.setCommand())
	return c
}

func (f *groupsFlags) listCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list [NAME...]", Short: "List change groups, all or those named", Example: "  drover changegroups list\n  drover changegroups list deploys project-42 -o json",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, names []string) error {
			client, err := f.conn.open()
			if err != nil {
				return err
			}
			params := &api.ListChangeGroupsParams{Name: names}
			t := newTable(f.env.Stdout, "NAME", "LIMIT", "ON BUSY", "RUNNING", "QUEUED")
			for {
				page, err := client.ChangeGroups(c.Context(), params)
				if err != nil {
					return err
				}
				if f.output == formatJSON {
					return printJSON(f.env.Stdout, page.Raw)
				}
				for _, g := range page.Value.Changegroups {
					t.row(g.Name, limitText(g.MaxRunning), string(g.OnBusy), strconv.Itoa(len(g.Running)), strconv.Itoa(len(g.Queued)))
				}
				if page.Value.NextAfter == "" {
					return t.flush()
				}
				params.After = page.Value.NextAfter
			}
		},
	}
}

func limitText(n int) string {
	if n == 0 {
		return "none"
	}
	return strconv.Itoa(n)
}

func (f *groupsFlags) getCommand() *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Short: "Show a change group: the runs that hold its slots, and those that wait in their order",
		Example: "  drover changegroups get deploys", Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.conn.open()
			if err != nil {
				return err
			}
			answer, err := client.ChangeGroup(c.Context(), args[0])
			if err != nil {
				return err
			}
			return f.print(answer)
		},
	}
}

func (f *groupsFlags) print(answer remote.Answer[api.ChangeGroup]) error {
	if f.output == formatJSON {
		return printJSON(f.env.Stdout, answer.Raw)
	}
	g := answer.Value
	t := newTable(f.env.Stdout)
	t.field("name", g.Name)
	t.field("limit", limitText(g.MaxRunning))
	t.field("on busy", string(g.OnBusy))
	t.field("running", strings.Join(g.Running, "\n"))
	t.field("queued", strings.Join(g.Queued, "\n"))
	t.field("token", g.ChangegroupToken)
	return t.flush()
}

func (f *groupsFlags) setCommand() *cobra.Command {
	var spec api.ChangeGroupSpec
	policy := string(run.OnBusyQueue)
	c := &cobra.Command{
		Use:   "set NAME",
		Short: "Set the limit and the policy of a change group",
		Long: `Sets how many runs of a change group may run at once, and what becomes of a run that finds no free slot: it waits (queue),
the runs that hold longest are stopped to make room (stop_running), those that wait are cancelled (cancel_queued), or it is
refused (reject). A lower limit stops nobody.`,
		Example: `  drover changegroups set deploys --max-running 1
  drover changegroups set previews --max-running 2 --on-busy cancel_queued
  drover changegroups set deploys --max-running 0`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.conn.open()
			if err != nil {
				return err
			}
			spec.OnBusy = api.OnBusy(policy)
			answer, err := client.PutChangeGroup(c.Context(), args[0], spec)
			if err != nil {
				return err
			}
			return f.print(answer)
		},
	}
	c.Flags().IntVar(&spec.MaxRunning, "max-running", 0, "how many runs may run at once; 0 is no limit")
	c.Flags().StringVar(&policy, "on-busy", policy, "queue, stop_running, cancel_queued or reject")
	c.Flags().StringVar(&spec.ChangegroupToken, "changegroup-token", "", "an update token: change it only if nothing has changed since it was read")
	_ = c.MarkFlagRequired("max-running")
	_ = c.RegisterFlagCompletionFunc("on-busy", cobra.FixedCompletions(texts(run.OnBusyPolicies()), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func groupsCommand(env Env) *cobra.Command {
	f := &runsFlags{env: env, conn: &connection{env: env}}
	var params api.ListGroupsParams
	c := &cobra.Command{
		Use:   "groups [PATH...]",
		Short: "Count the open runs of groups, and show the last run of each",
		Long:  "Shows groups of runs: those named, or all that have runs. Runs of groups below a path count for it too.",
		Example: `  drover groups /project/42
  drover groups --under /project`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, paths []string) error {
			client, err := f.conn.open()
			if err != nil {
				return err
			}
			params.Path = paths
			t := newTable(f.env.Stdout, "GROUP", "QUEUED", "RUNNING", "LAST RUN", "PHASE", "RESULT", "CREATED")
			for {
				page, err := client.Groups(c.Context(), &params)
				if err != nil {
					return err
				}
				if f.output == formatJSON {
					return printJSON(f.env.Stdout, page.Raw)
				}
				for _, g := range page.Value.Groups {
					last := api.Run{}
					if g.LastRun != nil {
						last = *g.LastRun
					}
					t.row(g.Path, strconv.Itoa(g.Queued), strconv.Itoa(g.Running), last.ID, string(last.Phase), string(last.Result), f.env.ago(last.CreatedAt))
				}
				if page.Value.NextAfter == "" {
					return t.flush()
				}
				params.After = page.Value.NextAfter
			}
		},
	}
	c.Flags().StringVar(&params.Under, "under", "", "only groups at or below this path")
	f.conn.addTo(c)
	f.output.addTo(c, formatTable)
	return c
}

// explainCommand shows what a run waits for, and nothing else of it.
func explainCommand(f *runsFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "explain ID",
		Short: "Tell why a run, and each of its tasks, waits",
		Long: `Tells for a run that is not final what it waits for, and for each task that waits: a change group with those that hold its
slots and the place in line, an approval, an executor, a slot, or other tasks.`,
		Example: "  drover runs explain 01k8z3m6w4v6q2d1c9x7b5a3n1",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: f.completeRun(1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.conn.open()
			if err != nil {
				return err
			}
			answer, err := client.Run(c.Context(), args[0])
			if err != nil {
				return err
			}
			if f.output == formatJSON {
				return printJSON(f.env.Stdout, answer.Raw)
			}
			return f.explain(answer.Value)
		},
	}
}

func (f *runsFlags) explain(r api.Run) error {
	text := fmt.Sprintf("run %s is %s", r.ID, r.Phase)
	if r.Reason != "" {
		text += ": " + plain(r.Reason)
	}
	if _, err := fmt.Fprintln(f.env.Stdout, text); err != nil {
		return err
	}
	t := newTable(f.env.Stdout)
	for _, name := range inOrder(r.Tasks) {
		task := r.Tasks[name]
		if task.Reason != "" && !run.Status(task.Status).Final() {
			t.row(name, string(task.Status), task.Reason)
		}
	}
	if err := t.flush(); err != nil {
		return err
	}
	if hint := explainHint(r); hint != "" {
		_, err := fmt.Fprintln(f.env.Stdout, hint)
		return err
	}
	return nil
}

// explainHint says what can be done.
func explainHint(r api.Run) string {
	switch {
	case run.Phase(r.Phase) == run.PhaseQueued && run.Admission(r.Admission) == run.AdmissionManual:
		return "To start it: drover runs start " + r.ID
	case run.Phase(r.Phase) == run.PhaseQueued && len(r.Changegroups) > 0:
		return "To see its change groups: drover changegroups list " + strings.Join(r.Changegroups, " ")
	}
	for _, name := range inOrder(r.Tasks) {
		switch run.Status(r.Tasks[name].Status) { //nolint:exhaustive // nothing can be done about the others
		case run.StatusWaitingApproval:
			return "To approve: drover runs approve " + r.ID + " " + name
		case run.StatusQueued:
			return "To see the executors: drover pools list; drover executors list"
		}
	}
	return ""
}
