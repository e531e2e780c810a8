package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

// explainCommand shows what a run waits for, and nothing else of it.
func explainCommand(f *runsFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "explain ID",
		Short: "Tell why a run, and each of its tasks, waits",
		Long: `Tells what a run that has not ended waits for, and each of its tasks that waits: a change group with those that hold its
slots and the place in line, a start, an approval, an executor, a slot, or other tasks; and what can be done about it.`,
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

// maxDependent bounds how many of the tasks are told that wait for other tasks
// of the run and for nothing else: there may be thousands, and the graph says
// it too.
const maxDependent = 10

func (f *runsFlags) explain(r api.Run) error {
	text := fmt.Sprintf("run %s is %s", r.ID, r.Phase)
	if r.Reason != "" {
		text += ": " + plain(r.Reason)
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

// explainTasks shows the tasks that wait, or run and are not heard of.
func (f *runsFlags) explainTasks(r api.Run) error {
	t := newTable(f.env.Stdout)
	dependent, shown := 0, 0
	for _, name := range inOrder(r.Tasks) {
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
		t.row(name, string(task.Status), task.Reason)
	}
	if more := dependent - maxDependent; more > 0 {
		t.row("...", string(run.StatusNotStarted), count(more, "task")+" more")
	}
	if shown == 0 {
		t.row("no task waits")
	}
	return t.flush()
}

// explainHints says what can be done about it.
func explainHints(r api.Run) []string {
	switch run.Phase(r.Phase) { //nolint:exhaustive // in the others nothing waits
	case run.PhaseQueued:
		return queuedHints(r)
	case run.PhaseRunning:
		return taskHints(r)
	}
	return nil
}

func queuedHints(r api.Run) []string {
	var hints []string
	// A run that was started and waits for its groups has nothing to be
	// started any more; its reason is all that tells.
	if run.Admission(r.Admission) == run.AdmissionManual && !strings.Contains(r.Reason, "change group") {
		return append(hints, "To start it: drover runs start "+r.ID)
	}
	if len(r.Changegroups) > 0 {
		names := make([]string, len(r.Changegroups))
		for i, name := range r.Changegroups {
			names[i] = quoted(name)
		}
		hints = append(hints, "To see its change groups: drover changegroups list "+strings.Join(names, " "),
			"To let more of their runs in: drover changegroups set NAME --max-running N")
	}
	return hints
}

func taskHints(r api.Run) []string {
	var approve, pools []string
	seen := make(map[string]bool)
	for _, name := range inOrder(r.Tasks) {
		switch t := r.Tasks[name]; run.Status(t.Status) { //nolint:exhaustive // nothing can be done about the others
		case run.StatusWaitingApproval:
			approve = append(approve, quoted(name))
		case run.StatusQueued:
			if !seen[t.Pool] {
				seen[t.Pool] = true
				pools = append(pools, "To see who serves the pool: drover pools get "+quoted(t.Pool)+"; drover executors list")
			}
		}
	}
	if len(approve) == 0 {
		return pools
	}
	return append([]string{"To approve: drover runs approve " + r.ID + " " + strings.Join(approve, " ")}, pools...)
}

// quoted returns a word as a shell takes it.
func quoted(word string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+,", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !safe(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(plain(word), "'", `'\''`) + "'"
}
