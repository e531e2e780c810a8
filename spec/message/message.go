// Package message says what notifications tell, and compiles the templates with
// which users word them. It has only pure functions; package webhooks fills in
// and sends the messages.
package message

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

// Bounds of the parts of a message.
const (
	// MaxTitle is the limit of a header in Slack, in characters; here in bytes.
	MaxTitle = 150
	// MaxText is below the limit of a text in Slack, also after escaping.
	MaxText   = 2900
	MaxFailed = 10 // failed tasks that are named

	maxName   = 120
	maxReason = 300
	maxDetail = 160 // reason of a failed task
	cut       = "…"
)

// The events of messages.
const (
	EventFinished       = "finished"
	EventApprovalWanted = "approval_wanted"
	EventTest           = "test"
)

// Data is the content of a message, and all that a template can read. Each text is
// one line without control characters, and bounded.
type Data struct {
	Webhook string
	Event   string // finished, approval_wanted or test
	Time    string // of the event, RFC 3339 in UTC

	Run       string // id; "" in a test
	Name      string
	Number    string // the run's number in its group root
	Group     string
	Outcome   string // see run.Outcome; "" unless it finished
	Reason    string // why the run ended so, or why the task waits
	Duration  string // from the start to the end
	CreatedBy string
	Actor     string // who ended the run, if a call did

	Task   string // that waits for approval
	Failed []Task // the first MaxFailed failed tasks
	More   int    // number of failed tasks that Failed lacks

	Link    string // to the run, if control.run_url is configured
	Command string // shows more
}

// Task is a failed task.
type Task struct {
	Name    string
	Reason  string
	Allowed bool // its failure is allowed
}

// Fact is a line of a message with a name.
type Fact struct{ Name, Value string }

// Clean returns a text as one bounded line. Control characters and characters
// that change the direction of text become spaces.
func Clean(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError:
			return '?'
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == '\u2028', r == '\u2029':
			return ' '
		}
		return r
	}, text)
	return truncate.String(strings.TrimSpace(text), limit, cut)
}

// cleanName cleans a name.
func cleanName(text string) string { return Clean(text, maxName) }

// Failed returns the failed task of a message.
func Failed(name, reason string, exitCode *int, allowed bool) Task {
	if reason == "" && exitCode != nil {
		reason = fmt.Sprintf("exit code %d", *exitCode)
	}
	return Task{Name: cleanName(name), Reason: Clean(reason, maxDetail), Allowed: allowed}
}

// Of returns the message of an event: of the end of a run, or of a task that waits
// for approval. r is nil if the run is gone.
func Of(webhook string, e run.Event, r *run.Run, failed []Task) Data {
	d := Data{
		Webhook: webhook, Event: EventFinished, Time: e.Time.UTC().Format(time.RFC3339), Run: string(e.Run), Group: Clean(e.Group, maxReason),
		Reason: Clean(e.Reason, maxReason), Actor: cleanName(e.Actor), Command: "drover runs get " + string(e.Run),
	}
	count := 0
	if r != nil {
		d.Name, d.Number, d.CreatedBy = cleanName(r.Name), fmt.Sprint(r.Counter), cleanName(r.CreatedBy)
		if !r.StartedAt.IsZero() && !r.EndedAt.IsZero() {
			d.Duration = rounded(r.EndedAt.Sub(r.StartedAt)).String()
		}
		count = r.TaskCounts[run.StatusFailed]
	}
	if e.Type == run.EventApprovalWanted {
		d.Event, d.Task, d.Actor, d.Duration = EventApprovalWanted, cleanName(e.Task), "", ""
		d.Command = "drover runs approve " + string(e.Run) + " " + Quote(d.Task)
		return d
	}
	if d.Outcome = string(run.OutcomeOf(e.Phase, e.Result, count)); r == nil && e.FailedTasks != nil {
		d.Outcome = string(run.OutcomeOf(e.Phase, e.Result, *e.FailedTasks))
	}
	d.Failed = failed[:min(len(failed), MaxFailed)]
	d.More = max(0, count-len(d.Failed))
	return d
}

// Quote returns a text as one word of a POSIX shell.
func Quote(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._/-", r)
	}
	if text != "" && !strings.HasPrefix(text, "-") && strings.TrimFunc(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Title returns the title in Drover's words.
func (d Data) Title() string {
	if d.Event == EventTest {
		return "Test of the webhook " + d.Webhook
	}
	title := cmp.Or(d.Name, d.Run)
	if d.Number != "" {
		title += " #" + d.Number
	}
	if d.Event == EventApprovalWanted {
		return Clean(title+": "+d.Task+" waits for approval", MaxTitle)
	}
	// The end is shown even if the name is long.
	end := " " + verb(run.Outcome(d.Outcome))
	return Clean(title, MaxTitle-len(end)) + end
}

func verb(o run.Outcome) string {
	switch o {
	case run.OutcomeSuccess:
		return "succeeded"
	case run.OutcomeWarnings:
		return "succeeded with warnings"
	case run.OutcomeFailed:
		return "failed"
	case run.OutcomeStopped:
		return "was stopped"
	case run.OutcomeCancelled:
		return "was cancelled"
	case run.OutcomeSetupError:
		return "could not be set up"
	}
	return "ended"
}

// oneApproval is the reason of a task that waits for one approval. The title says it.
const oneApproval = "waits for an approval"

// Facts returns the facts below the title, without empty ones.
func (d Data) Facts() []Fact {
	reason := d.Reason
	if d.Event == EventApprovalWanted && reason == oneApproval {
		reason = ""
	}
	all := []Fact{
		{"Group", d.Group},
		{"Run", d.Run},
		{"Result", d.Outcome},
		{"Duration", d.Duration},
		{"Created by", d.CreatedBy},
		{"Ended by", d.Actor},
		{"Task", d.Task},
		{"Reason", reason},
	}
	out := all[:0]
	for _, f := range all {
		if f.Value != "" {
			out = append(out, f)
		}
	}
	return out
}

// FailedLines returns one line for each failed task, and one for the rest.
func (d Data) FailedLines() []string {
	var out []string
	for _, t := range d.Failed {
		line := t.Name
		if t.Allowed {
			line += " (allowed)"
		}
		if t.Reason != "" {
			line += ": " + t.Reason
		}
		out = append(out, line)
	}
	if d.More > 0 {
		out = append(out, fmt.Sprintf("and %d more", d.More))
	}
	return out
}

// Escaped returns the data with each text replaced by escape.
func (d Data) Escaped(escape func(string) string) Data {
	for _, p := range []*string{
		&d.Webhook, &d.Event, &d.Time, &d.Run, &d.Name, &d.Number, &d.Group, &d.Outcome, &d.Reason, &d.Duration, &d.CreatedBy, &d.Actor,
		&d.Task, &d.Link, &d.Command,
	} {
		*p = escape(*p)
	}
	failed := make([]Task, len(d.Failed))
	for i, t := range d.Failed {
		failed[i] = Task{Name: escape(t.Name), Reason: escape(t.Reason), Allowed: t.Allowed}
	}
	d.Failed = failed
	return d
}

// Test returns the message of a test.
func Test(webhook string, at time.Time) Data {
	return Data{
		Webhook: webhook, Event: EventTest, Time: at.UTC().Format(time.RFC3339), Reason: "Drover reaches this receiver.",
		Command: "drover webhooks get " + webhook,
	}
}

// Samples returns a message of each event, on which templates are checked.
func Samples(webhook string) []Data {
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	e := run.Event{
		Type: run.EventRun, Time: at, Run: "01kg0000000000000000000000", Group: "/team/service", Phase: run.PhaseFinished, Result: run.ResultFailed,
		Reason: "1 of 12 tasks failed",
	}
	r := &run.Run{
		Name: "nightly", Counter: 42, CreatedBy: "schedule:nightly", StartedAt: at.Add(-90 * time.Second), EndedAt: at,
		TaskCounts: map[run.Status]int{run.StatusFailed: 2},
	}
	code := 1
	wanted := e
	wanted.Type, wanted.Task, wanted.Phase, wanted.Result, wanted.Reason = run.EventApprovalWanted, "deploy", run.PhaseRunning, run.ResultUnknown, oneApproval
	return []Data{
		Of(webhook, e, r, []Task{Failed("build[GO=1.26]", "", &code, false)}),
		Of(webhook, wanted, r, nil),
		Test(webhook, at),
	}
}

// rounded returns a duration for people: whole seconds, or milliseconds of less than
// ten seconds.
func rounded(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}
