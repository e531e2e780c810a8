package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/run"
)

func logsCommand(f *runsFlags) *cobra.Command {
	var q remote.LogQuery
	c := &cobra.Command{
		Use:   "logs ID [TASK]",
		Short: "Print the log of a task",
		Long: `Prints what the steps of a task wrote, as they wrote it; with -o json, piece by piece with time, step and stream, the bytes in
base64. Without TASK it prints the logs of all tasks that have begun, one after the other, each line after the name of its task.`,
		Example: `  drover runs logs 01k8z3m6w4v6q2d1c9x7b5a3n1 build --follow
  drover runs logs 01k8z3m6w4v6q2d1c9x7b5a3n1 build --step setup
  drover runs logs 01k8z3m6w4v6q2d1c9x7b5a3n1 'test[GO=1.26]' --attempt 1`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: f.completeTasks(nil),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.conn.open()
			if err != nil {
				return err
			}
			q.Run = args[0]
			if len(args) == 1 {
				return f.printAllLogs(c, client, q)
			}
			q.Task = args[1]
			return f.printLog(c, client, q, f.env.Stdout)
		},
	}
	flags := c.Flags()
	flags.StringVar(&q.Step, "step", "", "only this step: its number, from 0, or setup")
	flags.IntVar(&q.Attempt, "attempt", 0, "this attempt, from 1 (the newest)")
	flags.BoolVarP(&q.Follow, "follow", "f", false, "go on until the step, or the task, has ended")
	flags.Int64Var(&q.Offset, "offset", 0, "bytes to pass over")
	return c
}

// printLog writes one log. A gateway that is away is waited for only where the
// log is followed.
func (f *runsFlags) printLog(c *cobra.Command, client *remote.Client, q remote.LogQuery, w io.Writer) error {
	if q.Offset < 0 {
		return invalid("--offset must not be negative")
	}
	if q.Attempt < 0 {
		return invalid("--attempt must not be negative")
	}
	q.Impatient = !q.Follow
	for chunk, err := range client.Log(c.Context(), q) {
		if err != nil {
			return err
		}
		if f.output == formatJSON {
			err = printLine(w, struct {
				Task string `json:"task"`
				api.LogChunk
			}{q.Task, chunk})
		} else {
			_, err = w.Write(chunk.Data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *runsFlags) printAllLogs(c *cobra.Command, client *remote.Client, q remote.LogQuery) error {
	if q.Follow || q.Step != "" || q.Offset != 0 || q.Attempt != 0 {
		return invalid("--follow, --step, --offset and --attempt need a TASK; drover runs get %s --follow shows all that runs", q.Run)
	}
	answer, err := client.Run(c.Context(), q.Run)
	if err != nil {
		return err
	}
	for _, name := range inOrder(answer.Value.Tasks) {
		if answer.Value.Tasks[name].Executor == "" {
			continue // it has not begun
		}
		q.Task = name
		w := f.env.Stdout
		if f.output == formatTable {
			w = &prefixer{w: w, prefix: name + " | "}
		}
		if err := f.printLog(c, client, q, w); err != nil {
			return fmt.Errorf("reading the log of %s: %w", name, err)
		}
		if p, ok := w.(*prefixer); ok {
			if err := p.endLine(); err != nil {
				return err
			}
		}
	}
	return nil
}

// prefixer writes a prefix before each line.
type prefixer struct {
	w      io.Writer
	prefix string
	inside bool // a line
}

// Write implements io.Writer.
func (p *prefixer) Write(data []byte) (int, error) {
	var b bytes.Buffer
	for line := range bytes.Lines(data) {
		if !p.inside {
			b.WriteString(p.prefix)
		}
		b.Write(line)
		p.inside = !bytes.HasSuffix(line, []byte("\n"))
	}
	if _, err := b.WriteTo(p.w); err != nil {
		return 0, err
	}
	return len(data), nil
}

func (p *prefixer) endLine() error {
	if !p.inside {
		return nil
	}
	p.inside = false
	_, err := p.w.Write([]byte("\n"))
	return err
}

// noTask is the error for a task that a run does not have.
func noTask(r api.Run, task string) error {
	message := fmt.Sprintf("run %s has no task %q", r.ID, task)
	if near := run.Suggest(task, inOrder(r.Tasks)); near != "" {
		message += fmt.Sprintf("; did you mean %q?", near)
	}
	return run.Errorf(run.CodeNotFound, "%s", strings.TrimSpace(message))
}
