package cli

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/run"
)

// groupsFlags are shared by all commands on change groups.
type groupsFlags struct {
	env    session.Env
	conn   *session.Connection
	output render.Format
}

func changeGroupsCommand(env session.Env) *cobra.Command {
	f := &groupsFlags{env: env, conn: session.New(env)}
	c := &cobra.Command{
		Use:   "changegroups",
		Short: "Limit how many runs and tasks execute at once, and show which hold slots and which wait",
		Example: `  drover changegroups set deploys --max-running 1
  drover changegroups get deploys`,
	}
	command.Parent(c)
	f.conn.AddTo(c)
	f.output.AddTo(c, render.AsTable)
	c.AddCommand(f.listCommand(), f.getCommand(), f.applyCommand(), f.setCommand())
	return c
}

func (f *groupsFlags) listCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list [NAME...]", Short: "List change groups, all or those named",
		Long: `Lists change groups, all or those named. For named change groups, -o json has one update token for all of them, which is
consistent with the list.`,
		Example:           "  drover changegroups list\n  drover changegroups list deploys project-42 -o json",
		ValidArgsFunction: completeChangeGroups(f.conn, 0),
		RunE: func(c *cobra.Command, names []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			params := &api.ListChangeGroupsParams{Name: names}
			t := render.NewTable(f.env.Stdout, "NAME", "LIMIT", "ON BUSY", "HELD", "WAITING")
			pages := render.Pages{Key: "changegroups", Next: "next_after"}
			err = pages.Read(len(names), len(names) == 0, func(int) (json.RawMessage, string, error) {
				page, err := client.ChangeGroups(c.Context(), params)
				if err != nil {
					return nil, "", err
				}
				for _, g := range page.Value.Changegroups {
					t.Row(g.Name, limitText(g.MaxRunning), string(g.OnBusy), strconv.Itoa(heldOf(g)), strconv.Itoa(waitingOf(g)))
				}
				params.After = page.Value.NextAfter
				return page.Raw, params.After, nil
			})
			return pages.Show(f.env.Stdout, f.env.Stderr, f.output, t.Flush, err)
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
		Use: "get NAME", Short: "Show a change group: the runs and tasks that hold its slots, and the queue",
		Example: "  drover changegroups get deploys", Args: cobra.ExactArgs(1), ValidArgsFunction: completeChangeGroups(f.conn, 1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.conn.Open()
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
	if f.output == render.AsJSON {
		return render.JSON(f.env.Stdout, answer.Raw)
	}
	g := answer.Value
	t := render.NewTable(f.env.Stdout)
	t.Field("name", g.Name)
	t.Field("limit", limitText(g.MaxRunning))
	t.Field("on busy", string(g.OnBusy))
	t.Field("slots held", strconv.Itoa(heldOf(g)))
	t.Field("waiting", strconv.Itoa(waitingOf(g)))
	t.Field("running", count(len(g.Running), "run"))
	t.Field("queued", count(len(g.Queued), "run"))
	t.Field("update token", g.ChangegroupToken)
	if err := t.Flush(); err != nil || len(g.Running)+len(g.Queued)+len(g.HoldingTasks)+len(g.WaitingTasks) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(f.env.Stdout); err != nil {
		return err
	}
	t = render.NewTable(f.env.Stdout, "RUN", "TASK", "STATE")
	for _, id := range g.Running {
		t.Row(id, "", "holds a slot")
	}
	for _, x := range g.HoldingTasks {
		t.Row(x.Run, x.Task, "holds "+slots(taken(x.Units, g.MaxRunning)))
	}
	for _, x := range g.WaitingTasks {
		t.Row(x.Run, x.Task, "waits for "+slots(taken(x.Units, g.MaxRunning)))
	}
	for _, id := range g.Queued {
		t.Row(id, "", "waits")
	}
	return t.Flush()
}

// heldOf returns how many slots of a group are held. Gateways of older versions do not say it:
// their lists do, as far as they go.
func heldOf(g api.ChangeGroup) int {
	if g.Held != nil {
		return *g.Held
	}
	held := len(g.Running)
	for _, x := range g.HoldingTasks {
		held += taken(x.Units, g.MaxRunning)
	}
	return held
}

// waitingOf returns how many tasks and runs wait in a group.
func waitingOf(g api.ChangeGroup) int {
	if g.Waiting != nil {
		return *g.Waiting
	}
	return len(g.WaitingTasks) + len(g.Queued)
}

// taken returns how many slots a task takes of a group with a limit: all of them if it needs more.
func taken(units, limit int) int {
	if limit > 0 {
		return min(units, limit)
	}
	return units
}

func slots(n int) string {
	if n == 1 {
		return "a slot"
	}
	return count(n, "slot")
}

func (f *groupsFlags) applyCommand() *cobra.Command {
	return newApplier("change group", "max_running", (*remote.Client).PutChangeGroup, f.print).bind(&cobra.Command{
		Short: "Create or update a change group from a file",
		Long: `Creates or updates a change group from a YAML or JSON file, or from standard input with -. Its keys are max_running and on_busy, as
for drover changegroups set. The name is in the file, or given by --name.`,
		Example: "  drover changegroups apply -f deploys.yaml",
	}, f.env, f.conn)
}

func (f *groupsFlags) setCommand() *cobra.Command {
	var spec api.ChangeGroupSpec
	policy := string(run.OnBusyQueue)
	c := &cobra.Command{
		Use:   "set NAME",
		Short: "Set the limit and the policy of a change group",
		Long: `Sets how many runs of a change group may run at once, and what happens to a run that finds no free slot: it waits (queue),
the runs that have held slots longest are stopped (stop_running), the waiting runs are cancelled (cancel_queued), or the run is
refused (reject). A lower limit stops no run.`,
		Example: `  drover changegroups set deploys --max-running 1
  drover changegroups set previews --max-running 2 --on-busy cancel_queued
  drover changegroups set deploys --max-running 0`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeChangeGroups(f.conn, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if !c.Flags().Changed("max-running") { // the limit would be removed
				return command.Invalid("--max-running is missing; 0 is no limit")
			}
			client, err := f.conn.Open()
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
	c.Flags().IntVar(&spec.MaxRunning, "max-running", 0, "number of runs that may run at once; 0 is no limit")
	c.Flags().StringVar(&policy, "on-busy", policy, "queue, stop_running, cancel_queued or reject")
	addToken(c, &spec.ChangegroupToken)
	_ = c.RegisterFlagCompletionFunc("on-busy", cobra.FixedCompletions(toStrings(run.OnBusyPolicies()), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func groupsCommand(env session.Env) *cobra.Command {
	f := &runsFlags{env: env, conn: session.New(env)}
	var params api.ListGroupsParams
	groups := &cobra.Command{
		Use: "groups", Short: "Count the open runs of groups, and show the last run of each",
		Example: "  drover groups list\n  drover groups list --under /project",
	}
	command.Parent(groups)
	c := &cobra.Command{
		Use:   "list [PATH...]",
		Short: "Count the open runs of groups, and show the last run of each",
		Long:  "Shows groups of runs: those named, or all that have runs. Runs of groups below a path count for the path too.",
		Example: `  drover groups list /project/42
  drover groups list --under /project`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, paths []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			params.Path = paths
			t := render.NewTable(f.env.Stdout, "GROUP", "QUEUED", "RUNNING", "LAST RUN", "PHASE", "RESULT", "CREATED")
			pages := render.Pages{Key: "groups", Next: "next_after"}
			err = pages.Read(len(paths), len(paths) == 0, func(int) (json.RawMessage, string, error) {
				page, err := client.Groups(c.Context(), &params)
				if err != nil {
					return nil, "", err
				}
				f.addGroups(t, page.Value.Groups)
				params.After = page.Value.NextAfter
				return page.Raw, params.After, nil
			})
			return pages.Show(f.env.Stdout, f.env.Stderr, f.output, t.Flush, err)
		},
	}
	c.Flags().StringVar(&params.Under, "under", "", "only groups at or below this path")
	f.conn.AddTo(groups)
	f.output.AddTo(groups, render.AsTable)
	groups.AddCommand(c)
	return groups
}

func (f *runsFlags) addGroups(t *render.Table, groups []api.Group) {
	for _, g := range groups {
		last := api.Run{}
		if g.LastRun != nil {
			last = *g.LastRun
		}
		t.Row(g.Path, strconv.Itoa(g.Queued), strconv.Itoa(g.Running), last.ID, string(last.Phase), string(last.Result), f.env.Ago(last.CreatedAt))
	}
}
