package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/run"
)

// explainCommand shows what a run waits for.
func explainCommand(f *runsFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "explain ID",
		Short: "Explain why a run and its tasks wait, or what to do after a failure",
		Long: `Explains what an open run and its tasks wait for: a change group (with the runs that hold its slots and the position in the
queue), a start, an approval, an executor, a slot, an instance of a fleet, or other tasks, and whether Temporal is out of reach.
It prints commands that can help, also for a failed run.`,
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
			return f.explain(answer.Value)
		},
	}
}

// maxDependent bounds how many tasks are listed that wait only for other tasks of
// the run: there may be thousands, and the graph shows them too.
const maxDependent = 10

func (f *runsFlags) explain(r api.Run) error {
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
	for _, hint := range explainHints(r) {
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

// explainHints returns commands that can help.
func explainHints(r api.Run) []string {
	switch run.Phase(r.Phase) { //nolint:exhaustive // nothing waits in the other phases
	case run.PhaseQueued:
		return queuedHints(r)
	case run.PhaseRunning:
		return taskHints(r)
	case run.PhaseFinished:
		return failedHints(r)
	}
	return nil
}

// maxFailedHints bounds how many failed tasks the hints name.
const maxFailedHints = 3

// failedHints returns commands for the next steps after a failed run.
func failedHints(r api.Run) []string {
	if run.Phase(r.Phase) != run.PhaseFinished || run.Result(r.Result) != run.ResultFailed {
		return nil
	}
	var hints []string
	for _, name := range sortedTaskNames(r.Tasks) {
		t := r.Tasks[name]
		if run.Status(t.Status) == run.StatusFailed && t.Executor != "" && len(hints) < maxFailedHints {
			hints = append(hints, "To see the log: drover logs "+r.ID+" "+quoted(name))
		}
	}
	return append(hints, "To run what failed again: drover runs restart "+r.ID+" --from failed")
}

func queuedHints(r api.Run) []string {
	var hints []string
	// A started run that waits for its change groups needs no start. Only its
	// reason distinguishes it.
	if run.Admission(r.Admission) == run.AdmissionManual && !strings.Contains(r.Reason, "change group") {
		return append(hints, "To start it: drover runs start "+r.ID)
	}
	switch {
	case len(r.Changegroups) > 0:
		names := make([]string, len(r.Changegroups))
		for i, name := range r.Changegroups {
			names[i] = quoted(name)
		}
		hints = append(hints, "To see its change groups, with a role in all groups: drover changegroups list "+strings.Join(names, " "),
			"To raise a limit: drover changegroups set NAME --max-running N")
	case strings.Contains(r.Reason, "change group group:"): // of its group's path
		hints = append(hints, "To raise the limit: drover changegroups set group:PATH --max-running N")
	}
	return hints
}

func taskHints(r api.Run) []string {
	var approve, pools []string
	seen := make(map[string]bool)
	for _, name := range sortedTaskNames(r.Tasks) {
		switch t := r.Tasks[name]; run.Status(t.Status) { //nolint:exhaustive // there are no hints for the other statuses
		case run.StatusWaitingApproval:
			approve = append(approve, quoted(name))
		case run.StatusQueued:
			if !seen[t.Pool] {
				seen[t.Pool] = true
				pools = append(pools, "To see the executors of the pool: drover pools get "+quoted(t.Pool)+"; drover executors list")
			}
		}
	}
	if len(approve) == 0 {
		return pools
	}
	return append([]string{"To approve: drover runs approve " + r.ID + " " + strings.Join(approve, " ")}, pools...)
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
