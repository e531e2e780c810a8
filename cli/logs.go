package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/internal/suggest"
	"github.com/drover-run/drover/run"
)

// logsFlags select what is printed of logs, and how.
type logsFlags struct {
	*runsFlags
	query      remote.LogQuery
	step       string
	services   []string
	tail       int
	timestamps bool
	save       string
	text       string // to search for; "": print the log
	empty      bool   // the last log that was printed
}

func logsCommand(f *runsFlags) *cobra.Command {
	l := logsFlags{runsFlags: f}
	c := &cobra.Command{
		Use:   "logs ID [TASK]",
		Short: "Print the log of a task",
		Long: `Prints the unmodified output of the steps of a task; with -o json, chunks with time, step, stream and the bytes in base64.
Without TASK it prints the logs of all tasks that have begun, one after the other, and prefixes each line with the name of its task;
with --save, it writes each log to a file of its own in a directory.

With --search, it prints the lines that have a text, with their step and number, and the address of the first one in the web UI; with
-o json, each line has its address. Upper and lower case of ASCII letters are the same, and the text is no pattern. Line numbers count
in the selected output: with --step or --stream they differ from those of the web UI, and there is no address.`,
		Example: `  drover runs logs 01k8z3m6w4v6q2d1c9x7b5a3n1 build --follow --tail 20
  drover runs logs 01k8z3m6w4v6q2d1c9x7b5a3n1 build --step 2 --timestamps
  drover runs logs 01k8z3m6w4v6q2d1c9x7b5a3n1 build --since 10m --stream stderr
  drover runs logs 01k8z3m6w4v6q2d1c9x7b5a3n1 build --service postgres
  drover runs logs 01k8z3m6w4v6q2d1c9x7b5a3n1 --search "connection refused"
  drover runs logs 01k8z3m6w4v6q2d1c9x7b5a3n1 'test[GO=1.26]' --attempt 1
  drover runs logs 01k8z3m6w4v6q2d1c9x7b5a3n1 --save logs/`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: f.completeTasks(nil),
		RunE: func(c *cobra.Command, args []string) error {
			if err := l.check(c); err != nil {
				return err
			}
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			l.query.Run = args[0]
			if len(args) == 1 {
				return l.printOrSaveAll(c, client)
			}
			l.query.Task = args[1]
			return l.printOrSaveOne(c, client)
		},
	}
	flags := c.Flags()
	flags.StringVar(&l.step, "step", "", "only this step: its number from 1, its name, or setup")
	flags.StringSliceVar(&l.query.Streams, "stream", nil, "only this stream: stdout (all output of steps with merged streams), stderr or system (repeatable)")
	flags.StringSliceVar(&l.services, "service", nil, "only the output of this service, which is stored when the task ends (repeatable)")
	flags.IntVar(&l.query.Attempt, "attempt", 0, "number of the attempt, from 1 (default: the newest)")
	flags.BoolVarP(&l.query.Follow, "follow", "f", false, "follow until the step, or the task, has ended")
	flags.Int64Var(&l.query.Offset, "offset", 0, "number of bytes to skip")
	flags.StringVar(&l.query.Since, "since", "", "only output since this time: RFC 3339, or a duration before now like 10m")
	flags.IntVar(&l.tail, "tail", 0, "only this number of last lines")
	flags.BoolVar(&l.timestamps, "timestamps", false, "prefix each line with its time")
	flags.StringVar(&l.text, "search", "", "only lines that have this text")
	flags.StringVar(&l.save, "save", "", "write to this file, or without TASK to files in this directory")
	return c
}

func (l *logsFlags) check(c *cobra.Command) error {
	if c.Flags().Changed("tail") {
		l.query.Tail = &l.tail
	}
	for _, service := range l.services {
		l.query.Streams = append(l.query.Streams, string(run.ServiceStream(service)))
	}
	switch {
	case l.query.Offset < 0:
		return command.Invalid("--offset must not be negative")
	case l.query.Attempt < 0:
		return command.Invalid("--attempt must not be negative")
	case l.tail < 0:
		return command.Invalid("--tail must not be negative")
	case l.step != "" && len(l.services) > 0:
		return command.Invalid("--service excludes --step: services belong to no step")
	case l.query.Offset > 0 && (l.query.Since != "" || l.query.Tail != nil):
		return command.Invalid("--offset excludes --since and --tail")
	case l.timestamps && l.output == render.AsJSON:
		return command.Invalid("--timestamps is for text only: JSON always has times")
	}
	return l.checkSearch(c)
}

// printOrSaveOne prints, saves or searches the log of one task.
func (l *logsFlags) printOrSaveOne(c *cobra.Command, client *remote.Client) error {
	if err := l.selectStep(c, client); err != nil {
		return err
	}
	err := l.printOrSave(c, client)
	switch {
	case l.query.Step != "" && run.CodeOf(err) == run.CodeNotFound:
		steps, runErr := l.steps(c, client)
		if n, numberErr := strconv.Atoi(l.query.Step); runErr == nil && numberErr == nil && n >= len(steps) {
			return l.noStep(steps)
		}
		if runErr != nil {
			return runErr
		}
		return err
	case err == nil && l.empty:
		return l.explainEmpty(c, client)
	}
	return err
}

func (l *logsFlags) printOrSave(c *cobra.Command, client *remote.Client) error {
	if l.text != "" {
		return l.search(c, client, l.query, "")
	}
	if l.save == "" {
		return l.print(c, client, l.query, l.env.Stdout, "")
	}
	path := l.save
	if info, err := os.Stat(path); err == nil && info.IsDir() || strings.HasSuffix(path, "/") {
		path = filepath.Join(path, l.file(l.query.Task))
	}
	return l.saveTo(c, client, l.query, path)
}

// selectStep sets the step of the query from --step: a number that counts from 1
// as in the reasons of tasks, the name of a step, or setup.
func (l *logsFlags) selectStep(c *cobra.Command, client *remote.Client) error {
	n, err := strconv.Atoi(l.step)
	switch {
	case l.step == "" || l.step == setupStep:
		l.query.Step = l.step
		return nil
	case err == nil && n >= 1:
		l.query.Step = strconv.Itoa(n - 1) // the API counts from 0
		return nil
	}
	steps, err := l.steps(c, client)
	if err != nil {
		return err
	}
	n = slices.IndexFunc(steps, func(s api.Step) bool { return s.Name == l.step })
	if n < 0 {
		return l.noStep(steps)
	}
	l.query.Step = strconv.Itoa(n)
	return nil
}

// steps returns the steps of the task.
func (l *logsFlags) steps(c *cobra.Command, client *remote.Client) ([]api.Step, error) {
	answer, err := client.Run(c.Context(), l.query.Run)
	if err != nil {
		return nil, err
	}
	task, ok := answer.Value.Tasks[l.query.Task]
	if !ok {
		return nil, noTask(answer.Value, l.query.Task)
	}
	return task.Steps, nil
}

// noStep returns the error for an unknown step, which names the steps of the task.
func (l *logsFlags) noStep(steps []api.Step) error {
	names := make([]string, len(steps), len(steps)+1)
	for i, s := range steps {
		names[i] = strconv.Itoa(i + 1)
		if s.Name != "" {
			names[i] += " (" + render.Plain(s.Name) + ")"
		}
	}
	return run.Errorf(run.CodeNotFound, "task %s has no step %s; its steps are %s", l.query.Task, l.step, strings.Join(append(names, setupStep), ", "))
}

// setupStep is the value of --step that selects the log of the environment.
const setupStep = "setup"

// explainEmpty says why the log is empty if the task has not run.
func (l *logsFlags) explainEmpty(c *cobra.Command, client *remote.Client) error {
	answer, err := client.Run(c.Context(), l.query.Run)
	if err != nil {
		return err
	}
	if l.text != "" {
		return l.explainNothing(l.query.Task, answer.Value.Tasks[l.query.Task])
	}
	if why := whyNoLog(l.query.Task, answer.Value.Tasks[l.query.Task], l.services...); why != "" {
		_, err = fmt.Fprintln(l.env.Stderr, why)
	}
	return err
}

// whyNoLog returns why a task has no log, or no output of some services; "" if it has run
// and no services are named.
func whyNoLog(name string, t api.Task, services ...string) string {
	status := strings.ReplaceAll(string(t.Status), "_", " ")
	if t.Reason != "" {
		status += ": " + render.Plain(t.Reason)
	}
	switch {
	case t.Executor != "" && len(services) == 0:
		return ""
	case t.Executor != "" && !run.Status(t.Status).Final():
		return fmt.Sprintf("the output of services is stored when task %s ends; it is %s", name, status)
	case t.Executor != "":
		return fmt.Sprintf("task %s has no output of service %s", name, strings.Join(services, ", "))
	case !run.Status(t.Status).Final():
		return fmt.Sprintf("task %s has not run yet; it is %s", name, status)
	case run.Status(t.Status) == run.StatusSuccess: // a foreach task; the tasks of its list have the logs
		return fmt.Sprintf("task %s has no log of its own; it is %s", name, status)
	}
	return fmt.Sprintf("task %s did not run; it is %s", name, status)
}

// saveTo writes a log to a file. After an error, the file has the beginning of
// the log.
func (l *logsFlags) saveTo(c *cobra.Command, client *remote.Client, q remote.LogQuery, path string) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(l.print(c, client, q, file, ""), file.Close()); err != nil {
		return fmt.Errorf("save the log of %s to %s: %w", q.Task, path, err)
	}
	return nil
}

// file returns the file name for the log of a task.
func (l *logsFlags) file(task string) string {
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>|`, r) {
			return '-'
		}
		return r
	}, task)
	if l.output == render.AsJSON {
		return name + ".jsonl"
	}
	return name + ".log"
}

// print prints one log, with a prefix before each line. It waits for an
// unavailable gateway only if it follows the log.
func (l *logsFlags) print(c *cobra.Command, client *remote.Client, q remote.LogQuery, w io.Writer, prefix string) error {
	q.NoRetry = !q.Follow
	p := &prefixer{w: w, prefix: prefix}
	l.empty = true
	for chunk, err := range client.Log(c.Context(), q) {
		if err != nil {
			return err
		}
		l.empty = false
		switch {
		case l.output == render.AsJSON:
			err = render.Line(w, struct {
				Task string `json:"task"`
				api.LogChunk
			}{q.Task, chunk})
		case l.timestamps:
			p.prefix = prefix + chunk.Time.UTC().Format(timestampFormat) + " "
			_, err = p.Write(chunk.Data)
		case prefix != "":
			_, err = p.Write(chunk.Data)
		default:
			_, err = w.Write(chunk.Data)
		}
		if err != nil {
			return err
		}
	}
	if prefix != "" {
		return p.endLine()
	}
	return nil
}

// timestampFormat is RFC 3339 with a fixed number of digits for nanoseconds.
const timestampFormat = "2006-01-02T15:04:05.000000000Z07:00"

// printOrSaveAll prints, saves or searches the logs of all tasks that have begun.
func (l *logsFlags) printOrSaveAll(c *cobra.Command, client *remote.Client) error {
	q := l.query
	if q.Follow || l.step != "" || q.Offset != 0 || q.Attempt != 0 {
		return command.Invalid("--follow, --step, --offset and --attempt need a TASK; drover runs get %s --follow shows all that runs", q.Run)
	}
	answer, err := client.Run(c.Context(), q.Run)
	if err != nil {
		return err
	}
	begun, found := 0, false
	for _, name := range sortedTaskNames(answer.Value.Tasks) {
		if answer.Value.Tasks[name].Executor == "" {
			continue // the task has not begun
		}
		begun++
		q.Task = name
		switch {
		case l.text != "":
			err = l.search(c, client, q, name+" | ")
			found = found || !l.empty
		case l.save != "":
			err = l.saveTo(c, client, q, filepath.Join(l.save, l.file(name)))
		default:
			err = l.print(c, client, q, l.env.Stdout, name+" | ")
		}
		if err != nil {
			return fmt.Errorf("read the log of %s: %w", name, err)
		}
	}
	switch {
	case begun == 0:
		_, err = fmt.Fprintf(l.env.Stderr, "no task of run %s has run\n", q.Run)
	case l.text != "" && !found:
		_, err = fmt.Fprintf(l.env.Stderr, "no line of run %s has %q\n", q.Run, l.text)
	}
	return err
}

// prefixer prefixes each line.
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

// noTask returns the error for an unknown task.
func noTask(r api.Run, task string) error {
	message := fmt.Sprintf("run %s has no task %q", r.ID, task)
	if near := suggest.Nearest(task, sortedTaskNames(r.Tasks)); near != "" {
		message += fmt.Sprintf("; did you mean %q?", near)
	}
	return run.Errorf(run.CodeNotFound, "%s", strings.TrimSpace(message))
}
