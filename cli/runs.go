package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/exec"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/run"
)

// runsFlags are shared by all commands on runs.
type runsFlags struct {
	env    session.Env
	conn   *session.Connection
	output render.Format
}

func runsCommand(env session.Env) *cobra.Command {
	f := &runsFlags{env: env, conn: session.New(env)}
	c := &cobra.Command{
		Use:     "runs",
		Short:   "List, show and control runs",
		Example: "  drover runs list --phase running\n  drover runs get ID\n  drover runs logs ID TASK --follow\n  drover runs stop ID",
	}
	command.Parent(c)
	f.conn.AddTo(c)
	f.output.AddTo(c, render.AsTable)
	c.AddCommand(
		listRunsCommand(f), getRunCommand(f), logsCommand(f), outputsCommand(f), startCommand(f), stopCommand(f), cancelCommand(f), approveCommand(f),
		rejectCommand(f), annotateCommand(f), restartCommand(f), specCommand(f), explainCommand(f), deleteCommand(f),
		exec.Command(env, f.conn, f.completeTasks(isRunning)), exec.Release(env, f.conn, f.completeTasks(isRunning)),
	)
	f.conn.AcceptLast(c.Commands()...)
	return c
}

// runFilter is the flags that select runs.
type runFilter struct {
	phases, results, groups, annotations []string
	inputs                               []string
	changeGroups, tokenFor               []string
	names, createdBy                     []string
	mine, warnings                       bool
	after, before                        string
	limit                                int
	cursor                               string
	ascending, all                       bool
}

func listRunsCommand(f *runsFlags) *cobra.Command {
	var filter runFilter
	c := &cobra.Command{
		Use:   "list",
		Short: "List runs, newest first",
		Long: `Lists runs, newest first. Values of one flag are alternatives, different flags must all match. Times are RFC 3339, or an age:
90m, 36h.`,
		Example: `  drover runs list --phase running --phase queued
  drover runs list --group /project/42 --result failed --created-after 24h
  drover runs list --annotation commit=4f2a -o json
  drover runs list --input target=production --warnings
  drover ps --mine --phase running`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, _ []string) error { return listRuns(c, f, filter) },
	}
	flags := c.Flags()
	flags.StringSliceVar(&filter.phases, "phase", nil, "setup_error, queued, running, finished or cancelled (repeatable)")
	flags.StringSliceVar(&filter.results, "result", nil, "unknown, success, failed or stopped (repeatable)")
	flags.StringArrayVar(&filter.groups, "group", nil, "only runs of this group and of all groups below it (repeatable)")
	flags.StringArrayVar(&filter.changeGroups, "changegroup", nil, "only runs of this change group (repeatable)")
	addTokenFor(c, f, &filter.tokenFor)
	flags.StringArrayVar(&filter.annotations, "annotation", nil, "only runs with this annotation KEY=VALUE (repeatable)")
	flags.StringArrayVarP(&filter.inputs, "input", "i", nil, "only runs whose input has this value NAME=VALUE, as it was given or by default (repeatable)")
	flags.BoolVar(&filter.warnings, "warnings", false, "only runs that succeeded with warnings: tasks failed that may fail")
	flags.StringArrayVar(&filter.names, "name", nil, "only runs with this name, which is compared as a whole (repeatable)")
	flags.StringArrayVar(&filter.createdBy, "created-by", nil, "only runs that this token, user or schedule:NAME created (repeatable)")
	flags.BoolVar(&filter.mine, "mine", false, "only runs that you created")
	flags.StringVar(&filter.after, "created-after", "", "only runs created after this time")
	flags.StringVar(&filter.before, "created-before", "", "only runs created before this time")
	flags.IntVar(&filter.limit, "limit", 25, "number of runs to list, 1 to 100")
	flags.StringVar(&filter.cursor, "cursor", "", "cursor of the next page, from the previous list")
	flags.BoolVar(&filter.ascending, "oldest-first", false, "oldest first")
	flags.BoolVar(&filter.all, "all", false, "list all runs")
	_ = c.RegisterFlagCompletionFunc("changegroup", completeChangeGroups(f.conn, 0))
	_ = c.RegisterFlagCompletionFunc("phase", cobra.FixedCompletions(toStrings(run.Phases()), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("result", cobra.FixedCompletions(toStrings(run.Results()), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func addTokenFor(c *cobra.Command, f *runsFlags, names *[]string) {
	c.Flags().StringArrayVar(names, "token-for", nil, "change group to read an update token for (repeatable)")
	_ = c.RegisterFlagCompletionFunc("token-for", completeChangeGroups(f.conn, 0))
}

func toStrings[T ~string](values []T) []string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = string(v)
	}
	return all
}

func listRuns(c *cobra.Command, f *runsFlags, filter runFilter) error {
	params, err := filter.params(f.env)
	if err != nil {
		return err
	}
	if filter.all && len(filter.tokenFor) > 0 {
		return command.Invalid("--token-for is for a list with a limit: leave out --all")
	}
	client, err := f.conn.Open()
	if err != nil {
		return err
	}
	var runs []api.Run
	var token string
	pages := render.Pages{Key: "runs", Next: "next_cursor", Flag: "--cursor"}
	err = pages.Read(*params.Limit, filter.all, func(limit int) (json.RawMessage, string, error) {
		params.Limit = &limit
		page, err := client.Runs(c.Context(), params)
		if err != nil {
			return nil, "", err
		}
		runs, params.Cursor = append(runs, page.Value.Runs...), page.Value.NextCursor
		// The first token is not newer than any of the pages: if a change group has changed
		// since, a call with it fails.
		token = cmp.Or(token, page.Value.ChangegroupToken)
		return page.Raw, params.Cursor, nil
	})
	return pages.Show(f.env.Stdout, f.env.Stderr, f.output, func() error {
		if failed := f.printRuns(runs); failed != nil {
			return failed
		}
		if token != "" && err == nil { // it would cover runs that were not read
			_, _ = fmt.Fprintf(f.env.Stderr, "Update token: %s\n", token)
		}
		return nil
	}, err)
}

func (filter runFilter) params(env session.Env) (*api.ListRunsParams, error) {
	if filter.mine && len(filter.createdBy) > 0 {
		return nil, command.Invalid("--mine and --created-by exclude each other")
	}
	p := &api.ListRunsParams{
		Phase: convertAll[api.Phase](filter.phases), Result: convertAll[api.Result](filter.results), Group: filter.groups, Changegroup: filter.changeGroups,
		TokenFor: filter.tokenFor, Annotation: filter.annotations, Input: filter.inputs, Name: filter.names, CreatedBy: filter.createdBy,
		Limit: &filter.limit, Cursor: filter.cursor, Order: api.OrderDesc,
	}
	// These are not sent otherwise: earlier gateways do not know them.
	if filter.mine {
		p.Mine = &filter.mine
	}
	if filter.warnings {
		p.Warnings = &filter.warnings
	}
	if filter.ascending {
		p.Order = api.OrderAsc
	}
	if filter.all {
		most := 100
		p.Limit = &most
	}
	for _, bound := range []struct {
		flag, text string
		times      *[]time.Time
	}{{"created-after", filter.after, &p.CreatedAfter}, {"created-before", filter.before, &p.CreatedBefore}} {
		if bound.text == "" {
			continue
		}
		at, err := env.ParseTime(bound.text)
		if err != nil {
			return nil, command.Invalid("--%s: %w", bound.flag, err)
		}
		*bound.times = []time.Time{at}
	}
	return p, nil
}

func convertAll[T ~string](values []string) []T {
	var all []T // nil means that the parameter is absent
	for _, v := range values {
		all = append(all, T(v))
	}
	return all
}

func (f *runsFlags) printRuns(runs []api.Run) error {
	t := render.NewTable(f.env.Stdout, "ID", "NAME", "GROUP", "PHASE", "RESULT", "TASKS", "CREATED", "TOOK")
	for _, r := range runs {
		t.Row(r.ID, r.Name, r.Group, string(r.Phase), resultText(r.Result, r.TaskCounts[string(run.StatusFailed)]), countTasks(r.TaskCounts), f.env.Ago(r.CreatedAt), f.took(r))
	}
	return t.Flush()
}

func (f *runsFlags) took(r api.Run) string {
	if run.Phase(r.Phase).Final() && r.EndedAt.IsZero() {
		return ""
	}
	return f.env.Took(r.StartedAt, r.EndedAt)
}

// resultText returns the result of a run with its number of failed tasks: a run
// that succeeded has only failed tasks whose failure is allowed.
func resultText(result api.Result, failed int) string {
	switch {
	case run.Result(result) != run.ResultSuccess || failed == 0:
		return string(result)
	case failed == 1:
		return "success with 1 warning"
	}
	return fmt.Sprintf("%s with %d warnings", result, failed)
}

// countTasks returns the number of ended tasks and the number of all tasks.
func countTasks(counts map[string]int) string {
	ended, all := 0, 0
	for status, n := range counts {
		all += n
		if run.Status(status).Final() {
			ended += n
		}
	}
	return fmt.Sprintf("%d/%d", ended, all)
}

func getRunCommand(f *runsFlags) *cobra.Command {
	watch := &watcher{env: f.env}
	following, stages := false, false
	var tokenFor []string
	c := &cobra.Command{
		Use:   "get ID",
		Short: "Show a run with its tasks, and the reasons why they wait or failed",
		Long: `Shows a run, and of a failed one the last lines of the step that failed in the first failed task.

With --follow it shows the progress until the run has ended, and the exit code is the outcome of the run.`,
		Example:           "  drover runs get 01k8z3m6w4v6q2d1c9x7b5a3n1\n  drover runs get 01k8z3m6w4v6q2d1c9x7b5a3n1 --follow",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: f.completeRun(1),
		RunE: func(c *cobra.Command, args []string) error {
			if following && stages {
				return command.Invalid("--stages shows the run as it is: leave out --follow")
			}
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			r, err := client.Run(c.Context(), args[0], tokenFor...)
			if err != nil {
				return err
			}
			if following && !run.Phase(r.Value.Phase).Final() {
				return watch.follow(c.Context(), client, r.Value, f.output)
			}
			if f.output == render.AsJSON {
				err = render.JSON(f.env.Stdout, r.Raw)
			} else {
				err = f.printRun(r.Value)
			}
			if err == nil && stages && f.output != render.AsJSON {
				err = f.printStages(r.Value.Tasks)
			}
			if err == nil && f.output != render.AsJSON {
				err = f.printLastLines(c.Context(), client, r.Value)
			}
			if err == nil && following {
				err = watch.outcome(r.Value)
			}
			return err
		},
	}
	c.Flags().BoolVarP(&following, "follow", "f", false, "show the run until it has ended, as drover run does")
	c.Flags().BoolVar(&stages, "stages", false, "also list the stages of each task: its preparation, steps, uploads and cleanup (always in JSON)")
	addTokenFor(c, f, &tokenFor)
	watch.addTo(c)
	return c
}

func (f *runsFlags) printRun(r api.Run) error {
	t := render.NewTable(f.env.Stdout)
	t.Field("id", r.ID)
	t.Field("name", r.Name)
	t.Field("group", fmt.Sprintf("%s #%d", r.Group, r.Counter))
	t.Field("phase", string(r.Phase))
	t.Field("result", resultText(r.Result, len(r.Warnings)))
	t.Field("reason", r.Reason)
	t.Field("created", byActor(f.env.Clock(r.CreatedAt), r.CreatedBy))
	t.Field("started", f.env.Clock(r.StartedAt))
	t.Field("ended", f.env.Clock(r.EndedAt))
	t.Field("took", f.took(r))
	t.Field("allowed failures", strings.Join(r.Warnings, ", "))
	t.Field("tests", testsText(r.Tests))
	for _, name := range r.Tests.FailedNames {
		t.Field("failed test", name)
	}
	t.Field("priority", strconv.Itoa(r.Priority))
	t.Field("changegroups", strings.Join(r.Changegroups, ", "))
	t.Field("update token", r.ChangegroupToken)
	t.Field("inputs", pairs(inputTexts(r.InputValues)))
	t.Field("annotations", pairs(r.Annotations))
	for _, a := range r.Actions {
		t.Field(string(a.Action), f.actionText(a))
	}
	t.Field("restarted from", r.RestartedFrom)
	t.Field("restarted as", strings.Join(r.RestartedAs, ", "))
	for _, e := range r.SetupErrors {
		t.Field("setup error", e)
	}
	if err := t.Flush(); err != nil || len(r.Tasks) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(f.env.Stdout); err != nil {
		return err
	}
	t = render.NewTable(f.env.Stdout, "TASK", "STATUS", "TOOK", "ATTEMPT", "EXECUTOR", "REASON")
	for _, name := range sortedTaskNames(r.Tasks) {
		task := r.Tasks[name]
		took := ""
		if !run.Status(task.Status).Final() || !task.EndedAt.IsZero() {
			took = f.env.Took(task.StartedAt, task.EndedAt)
		}
		t.Row(name, render.TaskStatus(task.Status, task.Stage), took, strconv.Itoa(task.Attempt), task.Executor, task.Reason)
	}
	return t.Flush()
}

// printStages prints the stages of tasks, one after the other.
func (f *runsFlags) printStages(tasks map[string]api.Task) error {
	if _, err := fmt.Fprintln(f.env.Stdout); err != nil {
		return err
	}
	t := render.NewTable(f.env.Stdout, "TASK", "STAGE", "STEP", "STARTED", "TOOK")
	for _, name := range sortedTaskNames(tasks) {
		task := tasks[name]
		for _, s := range task.Stages {
			step := ""
			if s.Step != nil {
				step = strconv.Itoa(*s.Step + 1)
				if n := *s.Step; n >= 0 && n < len(task.Steps) && task.Steps[n].Name != "" {
					step += " " + task.Steps[n].Name
				}
			}
			t.Row(name, s.Stage, step, f.env.Clock(s.StartedAt), f.env.Took(s.StartedAt, s.EndedAt))
		}
	}
	return t.Flush()
}

// byActor adds who did something to when it was done.
func byActor(when, actor string) string {
	if actor == "" {
		return when
	}
	return when + " by " + actor
}

// actionText returns when and by whom a run was changed.
func (f *runsFlags) actionText(a api.ClientAction) string {
	text := byActor(f.env.Clock(a.Time), a.Actor)
	if a.Task != "" {
		text = a.Task + ", " + text
	}
	if a.Reason != "" {
		text += ": " + render.Plain(a.Reason)
	}
	return text
}

// sortedTaskNames returns the names of tasks by their number.
func sortedTaskNames(tasks map[string]api.Task) []string {
	names := make([]string, 0, len(tasks))
	for name := range tasks {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(tasks[a].Number, tasks[b].Number), cmp.Compare(a, b))
	})
	return names
}

// inputTexts returns the values of inputs as texts.
func inputTexts(values map[string]any) map[string]string {
	texts := make(map[string]string, len(values))
	for name, value := range values {
		if text, ok := value.(string); ok {
			texts[name] = text
		} else if text, err := json.Marshal(value); err == nil {
			texts[name] = string(text) // 1000000, and not 1e+06
		}
	}
	return texts
}

// pairs formats a map as k=v, sorted by key.
func pairs(m map[string]string) string {
	all := make([]string, 0, len(m))
	for k, v := range m {
		all = append(all, k+"="+v)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
