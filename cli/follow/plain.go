package follow

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

// maxLine is the longest line that is assembled; longer lines are split.
const maxLine = 64 << 10

// maxListed bounds the names in one message.
const maxListed = 10

// plain prints a run as lines, for pipes and files. The lines of one task are in
// order: its end comes after all of its output.
type plain struct {
	screen      Screen
	writers     map[string]*writer // by task
	partial     map[partialKey][]byte
	reported    map[string]bool // printed causes of waiting
	unavailable bool
}

type partialKey struct {
	source
	stream run.Stream
}

func logStreams() []run.Stream {
	return []run.Stream{run.StreamSystem, run.StreamStdout, run.StreamStderr}
}

// writer is the buffered output of one task.
type writer struct {
	reading []int // attempts whose logs are still being read
	queue   []line
}

// line is a line that is held back until the logs of all attempts up to after are
// read.
type line struct {
	after int
	text  string
}

func newPlain(s Screen) *plain {
	return &plain{
		screen: s, writers: make(map[string]*writer), partial: make(map[partialKey][]byte), reported: make(map[string]bool),
	}
}

func (p *plain) format(at time.Time, format string, args ...any) string {
	return p.screen.clock(at) + " " + clean(fmt.Sprintf(format, args...))
}

func (p *plain) print(text string) { p.screen.print(text + "\n") }

func (p *plain) writer(name string) *writer {
	w := p.writers[name]
	if w == nil {
		w = &writer{}
		p.writers[name] = w
	}
	return w
}

// printLine prints a line of a task after the logs of all attempts up to after are
// read.
func (p *plain) printLine(name string, after int, text string) {
	w := p.writer(name)
	w.queue = append(w.queue, line{after: after, text: text})
	p.flush(w)
}

// printLogLine prints a line of a log, before the lines that wait for the end of this
// log.
func (p *plain) printLogLine(s source, text string) {
	w := p.writer(s.task)
	i := slices.IndexFunc(w.queue, func(l line) bool { return l.after >= s.attempt })
	if i < 0 {
		i = len(w.queue)
	}
	w.queue = slices.Insert(w.queue, i, line{after: s.attempt - 1, text: s.task + " | " + text})
	p.flush(w)
}

func (p *plain) flush(w *writer) {
	for len(w.queue) > 0 && !w.readsUpTo(w.queue[0].after) {
		p.print(w.queue[0].text)
		w.queue = w.queue[1:]
	}
}

func (w *writer) readsUpTo(attempt int) bool {
	return slices.ContainsFunc(w.reading, func(a int) bool { return a <= attempt })
}

func (p *plain) logOpened(s source) {
	w := p.writer(s.task)
	if !slices.Contains(w.reading, s.attempt) {
		w.reading = append(w.reading, s.attempt)
	}
}

func (p *plain) changed(m *model, e api.Event, before, now *task) {
	if now == nil {
		p.runChanged(m, e)
		return
	}
	after := now.attempt - 1
	if now.status.Final() {
		after = now.attempt
	}
	if text := p.taskText(m, e, before, now); text != "" {
		p.printLine(now.name, after, p.format(e.Time, "%s %s", now.name, text))
	}
}

func (p *plain) runChanged(m *model, e api.Event) {
	switch {
	case m.phase.Final():
	case m.phase == run.PhaseRunning && m.result == run.ResultUnknown && m.reason == "":
		p.print(p.format(e.Time, "run %s running", m.id))
	case m.reason != "":
		p.print(p.format(e.Time, "run %s %s: %s", m.id, m.phase, m.reason))
	}
}

// taskText returns the message for an event, or "" if none is needed.
func (p *plain) taskText(m *model, e api.Event, before, now *task) string {
	because := ""
	if now.reason != "" {
		because = ": " + now.reason
	}
	switch now.status {
	case run.StatusNotStarted:
	case run.StatusQueued:
		if now.attempt > 1 || before != nil && before.status == run.StatusRunning {
			return fmt.Sprintf("queued again, attempt %d%s", now.attempt, because)
		}
	case run.StatusWaitingApproval:
		text := "waits for approval" + because
		if strings.HasPrefix(now.reason, "waits for ") {
			text = now.reason
		}
		return fmt.Sprintf("%s (drover runs approve %s %s)", text, m.id, now.name)
	case run.StatusWaitingChangeGroup:
		return cmp.Or(now.reason, "waits for slots of its change groups")
	case run.StatusRunning:
		switch {
		case e.Type == api.EventTypeStage:
			return now.statusText()
		case before == nil || before.status != run.StatusRunning || before.attempt != now.attempt:
			return now.statusText() + " on " + now.executor + nth(now.attempt) + because
		case now.reason != before.reason && now.reason != "":
			return "still running" + because
		case now.reason != before.reason || now.executor != before.executor:
			return "running on " + now.executor + " again"
		}
	case run.StatusSkipped, run.StatusCancelled:
		return string(now.status) + because
	case run.StatusSuccess:
		if now.started.IsZero() { // a foreach task succeeds without a step
			return "success" + because
		}
		return "success in " + p.screen.formatDuration(e.Time.Sub(now.started)) + because
	case run.StatusFailed, run.StatusStopped:
		text := string(now.status)
		if now.warning() {
			text += " as allowed"
		}
		if !now.started.IsZero() {
			text += " after " + p.screen.formatDuration(e.Time.Sub(now.started))
		}
		return text + because
	}
	return ""
}

func nth(attempt int) string {
	if attempt <= 1 {
		return ""
	}
	return fmt.Sprintf(" (attempt %d)", attempt)
}

func (p *plain) output(o output) {
	w := p.writer(o.task)
	key := partialKey{source: o.source, stream: o.chunk.Stream}
	if !o.ended {
		p.write(key, o.chunk.Data)
		return
	}
	for _, stream := range logStreams() {
		key.stream = stream
		if rest := p.partial[key]; len(rest) > 0 {
			p.logLine(o.source, rest)
		}
		delete(p.partial, key)
	}
	if o.err != nil {
		p.printLogLine(o.source, "(the log is incomplete: "+clean(o.err.Error())+")")
	}
	w.reading = slices.DeleteFunc(w.reading, func(a int) bool { return a == o.attempt })
	p.flush(w)
}

// write prints the lines that data completes.
func (p *plain) write(key partialKey, data []byte) {
	rest := slices.Concat(p.partial[key], data)
	for {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 && len(rest) >= maxLine {
			p.logLine(key.source, rest)
			rest = nil
		}
		if i < 0 {
			break
		}
		p.logLine(key.source, rest[:i])
		rest = rest[i+1:]
	}
	p.partial[key] = slices.Clone(rest)
}

func (p *plain) logLine(s source, text []byte) {
	p.printLogLine(s, p.screen.logText(string(bytes.TrimSuffix(text, []byte("\r")))))
}

// refreshed prints why tasks wait, each cause once, and again when the state of a fleet
// changes.
func (p *plain) refreshed(m *model) {
	groups := slices.DeleteFunc(m.waits(), func(g waitGroup) bool { return g.cause == "" })
	maps.DeleteFunc(p.reported, func(kind string, _ bool) bool {
		return !slices.ContainsFunc(groups, func(g waitGroup) bool { return g.kind() == kind })
	})
	for _, g := range groups {
		kind := g.kind()
		if p.reported[kind] || len(p.reported) > maxListed {
			continue
		}
		p.reported[kind] = true
		text := ": " + g.reason()
		if of, ok := strings.CutPrefix(g.reason(), "waits for "); ok && g.status == run.StatusWaitingChangeGroup {
			text = " for " + of
		}
		p.print(p.format(p.screen.Now(), "%s%s", waitingText(g.names), text))
	}
}

func waitingText(names []string) string {
	if len(names) == 1 {
		return names[0] + " waits"
	}
	return fmt.Sprintf("%s and %d more wait", names[0], len(names)-1)
}

func (p *plain) availability(err error) {
	switch {
	case err == nil:
		p.print(p.format(p.screen.Now(), "the gateway is available again"))
	case !p.unavailable:
		p.print(p.format(p.screen.Now(), "the gateway is unavailable, trying again: %v", err))
	}
	p.unavailable = err != nil
}

func (p *plain) tick(*model) {}

func (p *plain) end(m *model, settled bool) {
	for _, name := range sortedKeys(p.writers) {
		w := p.writers[name]
		w.reading = nil
		p.flush(w)
	}
	if !settled {
		return
	}
	for _, text := range slices.Concat(warnings(m), failures(m), failedTests(m)) {
		p.print(text)
	}
	p.print(summary(p.screen, m))
}

// failures returns the failed tasks with their reasons, without those whose
// failure is allowed.
func failures(m *model) []string {
	return listed(m, "failed: ", func(t *task) bool { return t.status == run.StatusFailed && !t.warning() })
}

// warnings returns the failed tasks whose failure is allowed, with their reasons.
func warnings(m *model) []string {
	return listed(m, "warning: failed as allowed: ", (*task).warning)
}

// listed returns the chosen tasks with their reasons, the first ones if they are
// many.
func listed(m *model, prefix string, chosen func(t *task) bool) []string {
	var all []string
	more := 0
	for _, t := range m.tasks {
		switch {
		case !chosen(t):
		case len(all) == maxListed:
			more++
		case t.reason == "":
			all = append(all, clean(prefix+t.name))
		default:
			all = append(all, clean(prefix+t.name+": "+t.reason))
		}
	}
	if more > 0 {
		all = append(all, fmt.Sprintf("%s%d more", prefix, more))
	}
	return all
}

// failedTests returns the failed tests of the run's test reports.
func failedTests(m *model) []string {
	if m.tests.Failed == 0 {
		return nil
	}
	all := []string{fmt.Sprintf("tests: %d of %d failed", m.tests.Failed, m.tests.Tests)}
	for i, name := range m.tests.FailedNames {
		if i == maxListed {
			return append(all, fmt.Sprintf("failed test: %d more", m.tests.Failed-maxListed))
		}
		all = append(all, clean("failed test: "+name))
	}
	return all
}

// summary returns the last line.
func summary(s Screen, m *model) string {
	text := fmt.Sprintf("run %s %s", m.id, m.phase)
	if m.phase == run.PhaseFinished {
		text += ": " + string(m.result)
	}
	if begin := m.started; !m.ended.IsZero() {
		if begin.IsZero() {
			begin = m.created
		}
		text += " in " + s.formatDuration(m.ended.Sub(begin))
	}
	if m.reason != "" {
		text += " (" + m.reason + ")"
	}
	return clean(text)
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// clean returns s on one line, without control sequences for terminals.
func clean(s string) string { return strings.TrimRight(Visible(s), " ") }
