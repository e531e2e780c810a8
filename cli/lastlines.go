package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/follow"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/run"
)

const (
	// maxLastLines is how many last lines of the failed step are shown, and maxLastBytes how
	// many bytes of the log they may have.
	maxLastLines = 10
	maxLastBytes = 4 << 10
	// maxLastRead is how many bytes are read for them: a line may be long, such as a progress
	// bar that is drawn again and again.
	maxLastRead = 4 << 20
	// lastLinesTimeout bounds how long the command waits for them.
	lastLinesTimeout = 5 * time.Second
)

// printLastLines prints how the log of a failed run ends: the last lines of the step that
// failed in the first failed task, and where the web UI has them. A log that cannot be read
// is left out, as the rest of what the command shows is worth having, and the log has a
// command of its own, which says why.
func (f *runsFlags) printLastLines(ctx context.Context, client *remote.Client, r api.Run) error {
	name, task, failed := firstFailed(r)
	if !failed {
		return nil
	}
	q := remote.LogQuery{Run: r.ID, Task: name, Attempt: task.Attempt, NoRetry: true, Tail: new(maxLastLines)}
	of := name
	if step := failedStep(task); step >= 0 {
		q.Step = strconv.Itoa(step)
		of += ", " + cmp.Or(task.Steps[step].Name, "step "+strconv.Itoa(step+1))
	}
	lines := lastLines(ctx, client, q)
	if ctx.Err() != nil {
		return context.Cause(ctx) // the user has interrupted the command
	}
	if len(lines) == 0 {
		return nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\nlast lines of %s:\n", render.Plain(of))
	for _, line := range lines {
		text.WriteString(strings.TrimRight("  "+line, " ") + "\n")
	}
	fmt.Fprintf(&text, "%s in the web UI: %s\n", render.Plain(name), client.TaskPage(r.ID, name, nil))
	_, err := io.WriteString(f.env.Stdout, text.String())
	return err
}

// firstFailed returns the first task, by number, whose failure is that of the run, and that
// has a log.
func firstFailed(r api.Run) (string, api.Task, bool) {
	if run.Phase(r.Phase) != run.PhaseFinished || run.Result(r.Result) != run.ResultFailed {
		return "", api.Task{}, false
	}
	for _, name := range sortedTaskNames(r.Tasks) {
		if t := r.Tasks[name]; failedWithLog(t) {
			return name, t, true
		}
	}
	return "", api.Task{}, false
}

// failedWithLog reports whether a task failed, not as allowed, after it had begun: others
// have no log.
func failedWithLog(t api.Task) bool {
	return run.Status(t.Status) == run.StatusFailed && !t.AllowFailure && t.Executor != ""
}

// failedStep returns the number of the step that failed first, -1 if none did, as when the
// environment of the task did not start.
func failedStep(t api.Task) int {
	for i, s := range t.Steps {
		if run.Status(s.Status) == run.StatusFailed {
			return i
		}
	}
	return -1
}

// lastLines returns the last lines of a log as a terminal can show them, without empty ones
// around them. It returns none if the log cannot be read in time, or its last lines are too
// long.
func lastLines(ctx context.Context, client *remote.Client, q remote.LogQuery) []string {
	ctx, cancel := context.WithTimeout(ctx, lastLinesTimeout)
	defer cancel()
	var end []byte
	read := 0
	for chunk, err := range client.Log(ctx, q) {
		if read += len(chunk.Data); err != nil || read > maxLastRead {
			return nil
		}
		end = append(end, chunk.Data...)
		end = end[max(0, len(end)-maxLastBytes-1):] // with the byte before, which may end a line
	}
	return tailOf(end)
}

// tailOf returns the last lines of the end of a log, of which the first byte is left out if
// there are too many. A line that is cut off is left out too, unless there is no other.
func tailOf(end []byte) []string {
	text, cut := string(end), false
	if len(end) > maxLastBytes {
		text, cut = string(end[1:]), end[0] != '\n'
		for n := 1; n < utf8.UTFMax && !utf8.RuneStart(text[0]); n++ {
			text = text[1:] // of a character that is cut off
		}
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = follow.Visible(line)
	}
	blank := func(line string) bool { return strings.TrimSpace(line) == "" }
	for len(lines) > 0 && blank(lines[len(lines)-1]) {
		lines = lines[:len(lines)-1]
	}
	if cut && len(lines) > 1 {
		lines = lines[1:]
	}
	for len(lines) > 0 && blank(lines[0]) {
		lines = lines[1:]
	}
	return lines[max(0, len(lines)-maxLastLines):]
}
