package cli

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/run"
)

// checkSearch refuses flags for the output of a log in a search.
func (l *logsFlags) checkSearch(c *cobra.Command) error {
	if !c.Flags().Changed("search") {
		return nil
	}
	if l.text == "" {
		return command.Invalid("--search needs a text")
	}
	for _, name := range []string{"follow", "offset", "since", "tail", "timestamps", "save"} {
		if c.Flags().Changed(name) {
			return command.Invalid("--search excludes --%s", name)
		}
	}
	return nil
}

// search prints the lines of one log that have the text, with a prefix before each line.
// In text, the web address of the first one follows on stderr.
func (l *logsFlags) search(c *cobra.Command, client *remote.Client, q remote.LogQuery, prefix string) error {
	first := ""
	l.empty = true
	for m, err := range client.SearchLog(c.Context(), q, l.text) {
		if err != nil {
			return err
		}
		page := l.page(client, q, m.Line)
		if l.empty {
			first, l.empty = page, false
		}
		if l.output == render.AsJSON {
			err = render.Line(l.env.Stdout, struct {
				Task string `json:"task"`
				api.LogMatch
				URL string `json:"url,omitempty"`
			}{q.Task, m, page})
		} else {
			_, err = fmt.Fprintf(l.env.Stdout, "%s%sline %d: %s\n", prefix, l.place(m.Step), m.Line+1, render.Plain(m.Text))
		}
		if err != nil {
			return err
		}
	}
	if first == "" || l.output == render.AsJSON {
		return nil
	}
	_, err := fmt.Fprintf(l.env.Stderr, "%s in the web UI: %s\n", q.Task, first)
	return err
}

// place names the step of a line. The output of services is of no step.
func (l *logsFlags) place(step int) string {
	switch {
	case len(l.services) > 0:
		return ""
	case step == run.SetupStep:
		return setupStep + ", "
	}
	return fmt.Sprintf("step %d, ", step+1)
}

// page returns the web address of a line, and "" if the web UI numbers its lines in another
// way: it shows the log of all steps, or the output of one service.
func (l *logsFlags) page(client *remote.Client, q remote.LogQuery, line int64) string {
	values := url.Values{"line": {strconv.FormatInt(line+1, 10)}}
	switch {
	case q.Step != "" || len(q.Streams) > 1 || len(q.Streams) != len(l.services):
		return ""
	case len(l.services) == 1:
		values.Set("service", l.services[0])
	}
	if q.Attempt > 0 {
		values.Set("attempt", strconv.Itoa(q.Attempt))
	}
	return client.TaskPage(q.Run, q.Task, values)
}

// explainNothing says that no line has the text, or why the task has no log.
func (l *logsFlags) explainNothing(name string, t api.Task) error {
	why := ""
	if t.Executor == "" || !run.Status(t.Status).Final() {
		why = whyNoLog(name, t, l.services...)
	}
	if why == "" {
		why = fmt.Sprintf("no line of %s has %q", name, l.text)
	}
	_, err := fmt.Fprintln(l.env.Stderr, why)
	return err
}
