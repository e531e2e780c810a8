package webhooks

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec/message"
)

// selects reports whether a webhook delivers an event.
func (f *follower) selects(ctx context.Context, e run.Event) (bool, error) {
	w := &f.w
	if !slices.Contains(w.Events, e.Type) {
		return false, nil
	}
	if len(w.Groups) > 0 && !slices.ContainsFunc(w.Groups, func(pattern string) bool { return run.MatchGroup(pattern, e.Group) }) {
		return false, nil
	}
	if e.Type != run.EventRun || !w.Format.Messages() && len(w.Results) == 0 {
		return true, nil
	}
	// A message about a run tells its end.
	failed := 0
	if e.FailedTasks != nil {
		failed = *e.FailedTasks
	}
	end := run.OutcomeOf(e.Phase, e.Result, failed)
	if end == run.OutcomeSuccess && len(w.Results) > 0 && e.FailedTasks == nil {
		// The event of an earlier version does not say whether there were warnings.
		r, err := f.d.store.GetSummary(ctx, e.Run)
		if err != nil && run.CodeOf(err) != run.CodeNotFound {
			return false, err
		}
		end = run.OutcomeOf(e.Phase, e.Result, r.TaskCounts[run.StatusFailed])
	}
	return end != "" && (len(w.Results) == 0 || slices.Contains(w.Results, end)), nil
}

// compose returns the message of an event. If the run is gone, the message has
// only what the event says.
func (d *Deliverer) compose(ctx context.Context, webhook string, e run.Event) (message.Data, error) {
	var known *run.Run
	r, err := d.store.GetSummary(ctx, e.Run)
	switch {
	case err == nil:
		known = &r
	case run.CodeOf(err) != run.CodeNotFound:
		return message.Data{}, err
	}
	var failed []message.Task
	if e.Type == run.EventRun {
		tasks, err := d.store.FailedTasks(ctx, e.Run, message.MaxFailed)
		if err != nil {
			return message.Data{}, err
		}
		for _, t := range tasks {
			failed = append(failed, message.Failed(t.Name, t.Reason, t.ExitCode, t.AllowFailure))
		}
	}
	m := message.Of(webhook, e, known, failed)
	if d.opts.RunURL != "" {
		m.Link = strings.ReplaceAll(d.opts.RunURL, "{run}", m.Run)
	}
	return m, nil
}

// words are the texts of a message that a template may replace.
type words struct {
	title string
	text  string // of the template; "" means Drover's own form
}

// word executes the templates of a webhook. The text of a template is trusted to
// use the markup of the format; what it inserts from the event is escaped. If a
// template fails on an event, although it was checked when it was put, the message
// has Drover's own words: a notification must not be lost.
func word(t *run.MessageTemplate, m message.Data, escape func(string) string) words {
	w := words{title: m.Title()}
	if t == nil || m.Event == message.EventTest {
		return w
	}
	if title, ok := execute(t.Title, m, message.MaxTitle); ok {
		// A header must not be empty.
		w.title = cmp.Or(message.Clean(title, message.MaxTitle), w.title)
	}
	if text, ok := execute(t.Text, m.Escaped(escape), message.MaxText); ok {
		w.text = strings.TrimSpace(text)
	}
	return w
}

// execute reports false for an empty template, or if it fails.
func execute(text string, m message.Data, limit int) (string, bool) {
	if text == "" {
		return "", false
	}
	t, err := message.Compile(text)
	if err != nil {
		return "", false
	}
	out, err := t.Execute(m, limit)
	return out, err == nil
}
