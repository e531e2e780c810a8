package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/internal/roles"
	"github.com/drover-run/drover/run"
)

// explainCommand shows what a run waits for.
func explainCommand(f *runsFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "explain ID",
		Short: "Explain why a run and its tasks wait, or what to do after a failure",
		Long: `Explains what an open run and its tasks wait for: a change group (with the runs that hold its slots and the position in the
queue), a start, an approval, an executor, a slot, an instance of a fleet, or other tasks, and whether Temporal is out of reach.
It prints commands that can help, also for a failed run, and the last lines of the step that failed in the first failed task.`,
		Example: "  drover runs explain 01k8z3m6w4v6q2d1c9x7b5a3n1",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: f.completeRun(1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			answer, err := client.Run(c.Context(), args[0])
			if err != nil {
				return err
			}
			if f.output == render.AsJSON {
				return render.JSON(f.env.Stdout, answer.Raw)
			}
			if err := f.explain(answer.Value, rightsOf(c.Context(), client)); err != nil {
				return err
			}
			return f.printLastLines(c.Context(), client, answer.Value)
		},
	}
}

// rights reports whether the caller has a permission in a group; "" is all groups.
type rights func(need roles.Permission, group string) bool

// rightsOf returns the rights of the caller. If the gateway does not say who the caller is,
// it may do everything: the gateway decides anyway.
func rightsOf(ctx context.Context, client *remote.Client) rights {
	answer, err := client.Session(ctx)
	if err != nil {
		return func(roles.Permission, string) bool { return true }
	}
	session := answer.Value
	if len(session.Bindings) == 0 {
		writes := slices.Contains(session.Scopes, "write") || slices.Contains(session.Scopes, "admin")
		return func(need roles.Permission, _ string) bool { return need == roles.View || writes }
	}
	bindings := make(roles.Bindings, len(session.Bindings))
	for i, b := range session.Bindings {
		bindings[i] = roles.Binding{Role: roles.Role(b.Role), Groups: b.Groups}
	}
	return bindings.Allows
}

// maxDependent bounds how many tasks are listed that wait only for other tasks of
// the run: there may be thousands, and the graph shows them too.
const maxDependent = 10

func (f *runsFlags) explain(r api.Run, may rights) error {
	text := fmt.Sprintf("run %s is %s", r.ID, r.Phase)
	if run.Phase(r.Phase) == run.PhaseFinished {
		text = fmt.Sprintf("run %s finished with the result %s", r.ID, r.Result)
	}
	if r.Reason != "" {
		text += ": " + render.Plain(r.Reason)
	}
	if _, err := fmt.Fprintln(f.env.Stdout, text); err != nil {
		return err
	}
	if run.Phase(r.Phase) == run.PhaseRunning {
		if err := f.explainTasks(r); err != nil {
			return err
		}
	}
	for _, hint := range explainHints(r, may) {
		if _, err := fmt.Fprintln(f.env.Stdout, hint); err != nil {
			return err
		}
	}
	return nil
}

// explainTasks prints the tasks that wait, and running tasks whose executor is
// out of contact.
func (f *runsFlags) explainTasks(r api.Run) error {
	t := render.NewTable(f.env.Stdout)
	dependent, shown := 0, 0
	for _, name := range sortedTaskNames(r.Tasks) {
		task := r.Tasks[name]
		if task.Reason == "" || run.Status(task.Status).Final() {
			continue
		}
		if run.Status(task.Status) == run.StatusNotStarted {
			if dependent++; dependent > maxDependent {
				continue
			}
		}
		shown++
		t.Row(name, render.TaskStatus(task.Status, task.Stage), task.Reason)
	}
	if more := dependent - maxDependent; more > 0 {
		t.Row("...", string(run.StatusNotStarted), count(more, "task")+" more")
	}
	if shown == 0 {
		t.Row("no task waits")
	}
	return t.Flush()
}

// explainHints returns commands that can help, and that the caller may use.
func explainHints(r api.Run, may rights) []string {
	switch run.Phase(r.Phase) { //nolint:exhaustive // nothing waits in the other phases
	case run.PhaseQueued:
		return queuedHints(r, may)
	case run.PhaseRunning:
		return taskHints(r, may)
	case run.PhaseFinished:
		return failedHints(r, may(roles.Submit, r.Group))
	}
	return nil
}

// maxFailedHints bounds how many failed tasks the hints name.
const maxFailedHints = 3

// failedHints returns commands for the next steps after a failed run.
func failedHints(r api.Run, maySubmit bool) []string {
	if run.Phase(r.Phase) != run.PhaseFinished || run.Result(r.Result) != run.ResultFailed {
		return nil
	}
	var hints []string
	for _, name := range sortedTaskNames(r.Tasks) {
		t := r.Tasks[name]
		if failedWithLog(t) && len(hints) < maxFailedHints {
			hints = append(hints, "To see the log: drover logs "+r.ID+" "+quoted(name))
		}
	}
	if !maySubmit {
		return hints
	}
	return append(hints, "To run what failed again: drover runs restart "+r.ID+" --from failed",
		"To correct it first: drover runs restart "+r.ID+" --from failed --edit")
}

func queuedHints(r api.Run, may rights) []string {
	var hints []string
	// A started run that waits for its change groups needs no start. Only its
	// reason distinguishes it.
	if run.Admission(r.Admission) == run.AdmissionManual && !strings.Contains(r.Reason, "change group") {
		if may(roles.Submit, r.Group) {
			hints = append(hints, "To start it: drover runs start "+r.ID)
		}
		return hints
	}
	names := make([]string, len(r.Changegroups))
	for i, name := range r.Changegroups {
		names[i] = quoted(name)
	}
	if len(names) > 0 && may(roles.View, "") {
		hints = append(hints, "To see its change groups: drover changegroups list "+strings.Join(names, " "))
	}
	switch {
	case !may(roles.Operate, ""):
	case len(names) > 0:
		hints = append(hints, "To raise a limit: drover changegroups set NAME --max-running N")
	case strings.Contains(r.Reason, "change group group:"): // of its group's path
		hints = append(hints, "To raise the limit: drover changegroups set group:PATH --max-running N")
	}
	return hints
}

func taskHints(r api.Run, may rights) []string {
	var approve, pools []string
	waits, groups := false, make(map[string]bool) // for slots of change groups
	seen := make(map[string]bool)
	for _, name := range sortedTaskNames(r.Tasks) {
		switch t := r.Tasks[name]; run.Status(t.Status) { //nolint:exhaustive // there are no hints for the other statuses
		case run.StatusWaitingApproval:
			approve = append(approve, quoted(name))
		case run.StatusWaitingChangeGroup:
			waits = true
			for _, g := range t.Changegroups {
				groups[g.Name] = true
			}
		case run.StatusQueued:
			if !seen[t.Pool] {
				seen[t.Pool] = true
				if may(roles.View, "") {
					pools = append(pools, "To see the executors of the pool: drover pools get "+quoted(t.Pool)+"; drover executors list")
				} else {
					pools = append(pools, "To see the pool: drover pools get "+quoted(t.Pool))
				}
			}
		}
	}
	if waits {
		pools = append(pools, slotsHints(slices.Sorted(maps.Keys(groups)), may)...)
	}
	if len(approve) == 0 || !may(roles.Approve, r.Group) {
		return pools
	}
	return append([]string{"To approve: drover runs approve " + r.ID + " " + strings.Join(approve, " ")}, pools...)
}

// slotsHints returns commands for tasks that wait for slots of change groups. Gateways of older
// versions do not name them.
func slotsHints(groups []string, may rights) []string {
	see, set := "To see who holds slots: drover changegroups get NAME", "NAME"
	switch len(groups) {
	case 0:
	case 1:
		set = quoted(groups[0])
		see = "To see who holds slots: drover changegroups get " + set
	default:
		see = "To see the change groups: drover changegroups list"
		for _, name := range groups {
			see += " " + quoted(name)
		}
	}
	var hints []string
	if may(roles.View, "") {
		hints = append(hints, see)
	}
	if may(roles.Operate, "") {
		hints = append(hints, "To raise a limit: drover changegroups set "+set+" --max-running N")
	}
	return hints
}

// quoted quotes a word for a shell.
func quoted(word string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+,", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !safe(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(render.Plain(word), "'", `'\''`) + "'"
}
