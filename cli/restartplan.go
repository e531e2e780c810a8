package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/run"
)

// shownReruns is how many tasks that run are shown before a restart.
const shownReruns = 20

// plan shows what becomes of the tasks in a restart, if the user asked for it or has changed the
// specification of some, and reports whether the restart is to be made.
func (r *restartFlags) plan(ctx context.Context, f *runsFlags, client *remote.Client, id string, body api.Restart) (bool, error) {
	if !r.dryRun && (body.Spec == "" || body.From == api.RestartFromStart) {
		return true, nil
	}
	plan, err := client.PlanRestart(ctx, id, body)
	switch {
	case err != nil:
		return false, err
	case r.dryRun && f.output == render.AsJSON:
		return false, render.JSON(f.env.Stdout, plan.Raw)
	case r.dryRun:
		return false, printPlan(f.env.Stdout, plan.Value.Tasks)
	}
	if err := summarizePlan(f.env.Stderr, plan.Value.Tasks); err != nil {
		return false, err
	}
	if !r.edit || f.env.MakeRaw == nil {
		return true, nil
	}
	_, _ = fmt.Fprint(f.env.Stderr, "Restart the run? [Y/n] ")
	line, err := bufio.NewReader(f.env.Stdin).ReadString('\n')
	if err != nil && err != io.EOF { //nolint:errorlint // ReadString returns it as it is
		return false, fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true, nil
	case "":
		return err == nil, nil // the end of the input is no answer
	}
	return false, nil
}

// printPlan prints a table of all tasks.
func printPlan(w io.Writer, tasks []api.RestartTask) error {
	t := render.NewTable(w, "TASK", "RESTART")
	for _, x := range tasks {
		if x.Kept {
			t.Row(x.Name, "keeps its result")
			continue
		}
		t.Row(x.Name, "runs: "+whyRuns(x))
	}
	return t.Flush()
}

// summarizePlan prints the number of tasks that keep their results, and the others with the
// reasons for which they run.
func summarizePlan(w io.Writer, tasks []api.RestartTask) error {
	var rerun []api.RestartTask
	for _, x := range tasks {
		if !x.Kept {
			rerun = append(rerun, x)
		}
	}
	keep, runs := "keep their results", "run"
	if len(tasks)-len(rerun) == 1 {
		keep = "keeps its result"
	}
	if len(rerun) == 1 {
		runs = "runs"
	}
	if _, err := fmt.Fprintf(w, "%s %s, %s %s:\n", count(len(tasks)-len(rerun), "task"), keep, count(len(rerun), "task"), runs); err != nil {
		return err
	}
	for _, x := range rerun[:min(shownReruns, len(rerun))] {
		if _, err := fmt.Fprintf(w, "  %s: %s\n", render.Plain(x.Name), render.Plain(whyRuns(x))); err != nil {
			return err
		}
	}
	if more := len(rerun) - shownReruns; more > 0 {
		_, err := fmt.Fprintf(w, "  and %d more, which --dry-run shows\n", more)
		return err
	}
	return nil
}

// whyRuns says why a task of a restart runs.
func whyRuns(t api.RestartTask) string {
	switch run.RestartReason(t.Reason) {
	case run.RestartFromStart:
		return "all tasks do"
	case run.RestartRequested:
		return "you named it"
	case run.RestartTaskFailed:
		return "it failed"
	case run.RestartTaskStopped:
		return "it was stopped"
	case run.RestartNotRun:
		return "it did not run"
	case run.RestartSkipped:
		return "it was skipped, which is decided again"
	case run.RestartIncomplete:
		return "not all tasks of its list succeeded"
	case run.RestartNew:
		return "it is new"
	case run.RestartChanged:
		return t.Detail + " is changed"
	case run.RestartDependency:
		return "it depends on " + t.Detail
	case run.RestartFinally:
		return "finally tasks always do"
	}
	return string(t.Reason) // of a later gateway
}
