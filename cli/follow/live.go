package follow

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

// Layout of a frame.
const (
	minColumns = 20
	minRows    = 6
	maxColumns = 200 // of text
	keptLines  = 200 // of the log in memory
	nameShare  = 3   // divisor: names take at most a third of the columns
	logShare   = 3   // divisor: the log takes at least a third of the rows
	tail       = 15  // lines of the log of a failed task at the end
	tailOfEach = 5   // lines of it that each stream keeps, however much the others print
	tails      = 3   // failed tasks whose logs are shown at the end
	tick       = time.Second
)

// live shows a run as a frame that is redrawn when the run changes.
type live struct {
	screen      Screen
	canvas      canvas
	partial     map[partialKey]string
	log         []logLine            // the last lines of all logs together
	tails       map[source][]logLine // the last lines of each log
	unavailable error
	dirty       bool
	drawn       time.Time
}

type logLine struct {
	task, text string
	stream     run.Stream
}

func newLive(s Screen) *live {
	return &live{screen: s, canvas: canvas{screen: s}, partial: make(map[partialKey]string), tails: make(map[source][]logLine), dirty: true}
}

func (l *live) logOpened(source) {}

func (l *live) changed(_ *model, _ api.Event, _, now *task) {
	l.dirty = true
	if now != nil && now.status == run.StatusSuccess {
		delete(l.tails, source{task: now.name, attempt: now.attempt}) // the task did not fail, so its log is not shown at the end
	}
}

func (l *live) refreshed(*model) { l.dirty = true }

func (l *live) availability(err error) { l.unavailable, l.dirty = err, true }

func (l *live) output(o output) {
	l.dirty = true
	if o.ended {
		for _, stream := range logStreams() {
			key := partialKey{source: o.source, stream: stream}
			if rest := l.partial[key]; rest != "" {
				l.line(key, rest)
			}
			delete(l.partial, key)
		}
		return
	}
	key := partialKey{source: o.source, stream: o.chunk.Stream}
	text := l.partial[key] + string(o.chunk.Data)
	for {
		i := strings.IndexByte(text, '\n')
		if i < 0 {
			break
		}
		l.line(key, text[:i])
		text = text[i+1:]
	}
	l.partial[key] = truncate.Tail(text, maxLine)
}

func (l *live) line(of partialKey, text string) {
	line := logLine{task: of.task, text: Visible(text), stream: of.stream}
	l.log = lastN(append(l.log, line), keptLines)
	l.tails[of.source] = lastOfEach(append(l.tails[of.source], line))
}

// lastOfEach returns the last lines, with the last ones of each stream among them:
// what a step printed last to stderr is not lost behind its stdout.
func lastOfEach(lines []logLine) []logLine {
	if len(lines) <= tail {
		return lines
	}
	count := make(map[run.Stream]int)
	for _, line := range lines {
		count[line.stream]++
	}
	oldest := max(0, slices.IndexFunc(lines, func(line logLine) bool { return count[line.stream] > tailOfEach }))
	return slices.Delete(lines, oldest, oldest+1)
}

func lastN[T any](s []T, most int) []T {
	if len(s) <= most {
		return s
	}
	return append(s[:0], s[len(s)-most:]...)
}

func (l *live) tick(m *model) {
	now := l.screen.Now()
	if !l.dirty && now.Sub(l.drawn) < tick {
		return
	}
	l.dirty, l.drawn = false, now
	columns, rows := l.size()
	l.canvas.draw(l.picture(m, columns, rows), columns)
}

// size returns the usable columns and rows. It leaves the last column empty,
// because some terminals wrap a full line.
func (l *live) size() (columns, rows int) {
	columns, rows = l.screen.Size()
	return max(minColumns, min(columns-1, maxColumns)), max(minRows, rows-1)
}

// picture returns the header, the tasks, and the end of the log.
func (l *live) picture(m *model, columns, rows int) []string {
	lines := l.header(m, columns)
	forLog := 0
	if len(l.log) > 0 {
		forLog = (rows - len(lines)) / logShare
	}
	lines = append(lines, l.table(m, columns, rows-len(lines)-forLog)...)
	// The log gets the rows that the tasks leave.
	if room := rows - len(lines); len(l.log) > 0 && room > 1 {
		lines = append(lines, l.logTail(l.log, columns, room)...)
	}
	return lines
}

func (l *live) header(m *model, columns int) []string {
	state := string(m.phase)
	if m.phase == run.PhaseFinished || m.result == run.ResultFailed {
		state += ", " + string(m.result)
	}
	if !m.started.IsZero() {
		end := m.ended
		if end.IsZero() {
			end = l.screen.Now()
		}
		state += " " + l.screen.formatDuration(end.Sub(m.started))
	}
	head := clean(fmt.Sprintf("%s  %s  %s  run %s", m.name, state, m.group, m.id))
	lines := []string{l.paint(bold, fit(head, columns, l.mark()))}
	switch {
	case l.unavailable != nil:
		lines = append(lines, l.paint(yellow, fit("the gateway is unavailable, trying again: "+clean(l.unavailable.Error()), columns, l.mark())))
	case m.reason != "":
		lines = append(lines, fit(clean(m.reason), columns, l.mark()))
	}
	return append(lines, l.countLine(m, columns))
}

// countLine counts the tasks by status.
func (l *live) countLine(m *model, columns int) string {
	var parts []string
	for _, status := range byUrgency() {
		if status == run.StatusRunning {
			parts = append(parts, runningParts(m)...)
		} else if n := m.counts[status]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(string(status), "_", " ")))
		}
	}
	return fit(fmt.Sprintf("%d tasks: %s", len(m.tasks), strings.Join(parts, ", ")), columns, l.mark())
}

// runningParts counts the running tasks by what they do.
func runningParts(m *model) (parts []string) {
	counts := make(map[string]int)
	for _, t := range m.tasks {
		if t.status == run.StatusRunning {
			counts[t.statusText()]++
		}
	}
	for _, text := range sortedKeys(counts) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[text], text))
	}
	return parts
}

// shortStatus returns a short form of the status.
func (t *task) shortStatus() string {
	switch t.status { //nolint:exhaustive // the others are short
	case run.StatusWaitingApproval:
		return "approval"
	case run.StatusWaitingChangeGroup:
		return "change group"
	}
	return strings.ReplaceAll(t.statusText(), "_", " ")
}

// byUrgency returns the statuses, most important first.
func byUrgency() []run.Status {
	return []run.Status{
		run.StatusFailed, run.StatusRunning, run.StatusWaitingApproval, run.StatusStopped, run.StatusWaitingChangeGroup, run.StatusQueued,
		run.StatusSuccess, run.StatusNotStarted, run.StatusSkipped, run.StatusCancelled,
	}
}

// table returns the tasks in at most the given rows: all tasks by number, or the
// most important ones and the number of the others.
func (l *live) table(m *model, columns, rows int) []string {
	if rows <= 0 {
		return nil
	}
	shown, rest := m.tasks, []string(nil)
	if len(shown) > rows {
		shown, rest = l.urgent(m, columns, rows)
	}
	names := 0
	for _, t := range shown {
		names = max(names, width(clean(t.name)))
	}
	names = min(names, columns/nameShare)
	lines := make([]string, 0, len(shown)+len(rest))
	for _, t := range shown {
		lines = append(lines, l.row(t, names, columns))
	}
	return append(lines, rest...)
}

// urgent returns the most important tasks, recently ended ones first, and lines
// for waiting tasks and for the rest. Together they take at most the given rows.
func (l *live) urgent(m *model, columns, rows int) (shown []*task, rest []string) {
	waiting := l.waiting(m, columns)
	if most := max(0, rows-1); len(waiting) > most/2 {
		waiting = waiting[:most/2]
	}
	room := rows - 1 - len(waiting)
	some := func(status run.Status, most int) {
		var all []*task
		for _, t := range m.tasks {
			if t.status == status {
				all = append(all, t)
			}
		}
		slices.SortStableFunc(all, func(a, b *task) int { return b.ended.Compare(a.ended) })
		all = all[:min(len(all), most)]
		room -= len(all)
		shown = append(shown, all...)
	}
	some(run.StatusFailed, room/2) // keep rows for running tasks
	some(run.StatusRunning, room)
	some(run.StatusWaitingApproval, room)
	some(run.StatusStopped, room)
	if more := len(m.tasks) - len(shown) - m.counts[run.StatusQueued] - m.counts[run.StatusWaitingChangeGroup]; more > 0 {
		waiting = append(waiting, fit(fmt.Sprintf("   and %d more", more), columns, l.mark()))
	}
	return shown, waiting
}

// waiting counts the tasks that are queued or wait for slots, by cause.
func (l *live) waiting(m *model, columns int) []string {
	style := styleOf(run.StatusQueued)
	var lines []string
	for _, group := range m.waits() {
		text := fmt.Sprintf(" %s %d queued", l.symbol(style), len(group.names))
		reason := group.reason()
		if group.status == run.StatusWaitingChangeGroup {
			text = fmt.Sprintf(" %s %d waiting", l.symbol(style), len(group.names))
			if of, ok := strings.CutPrefix(reason, "waits for "); ok {
				text, reason = text+" for "+clean(of), ""
			}
		}
		if reason != "" {
			text += ": " + clean(reason)
		}
		lines = append(lines, l.paint(style.colour, fit(text, columns, l.mark())))
	}
	return lines
}

// row returns the line of one task.
func (l *live) row(t *task, names, columns int) string {
	style := t.style()
	left := " " + l.symbol(style) + " " + pad(fit(clean(t.name), names, l.mark()), names) + "  " + pad(t.shortStatus(), 11)
	var facts []string
	if !t.started.IsZero() {
		end := t.ended
		if end.IsZero() {
			end = l.screen.Now()
		}
		facts = append(facts, pad(l.screen.formatDuration(end.Sub(t.started)), 6))
	}
	if t.attempt > 1 {
		facts = append(facts, "attempt "+strconv.Itoa(t.attempt))
	}
	if t.status == run.StatusRunning {
		facts = append(facts, clean(t.executor))
		if n, name := t.step(); n > 0 {
			facts = append(facts, clean(strings.TrimSpace(fmt.Sprintf("step %d/%d %s", n, len(t.steps), name))))
		}
	}
	if t.reason != "" {
		facts = append(facts, clean(t.reason))
	}
	line := fit(left+" "+strings.Join(facts, "  "), columns, l.mark())
	return l.paint(style.colour, strings.TrimRight(line, " "))
}

// logTail returns the last lines of a log below a separator.
func (l *live) logTail(log []logLine, columns, rows int) []string {
	lines := []string{l.paint(faint, strings.Repeat(l.rule(), columns))}
	for _, line := range log[max(0, len(log)-rows+1):] {
		lines = append(lines, fit(clean(line.task+" | "+line.text), columns, l.mark()))
	}
	return lines
}

// end draws the last frame, and below it the failures and the outcome.
func (l *live) end(m *model, settled bool) {
	columns, rows := l.size()
	if settled {
		l.unavailable = nil
	}
	l.canvas.draw(l.picture(m, columns, rows), columns)
	l.canvas.finish()
	if !settled {
		return
	}
	l.printTails(m)
	for _, text := range warnings(m) {
		l.screen.print(l.paint(yellow, text) + "\n")
	}
	for _, text := range append(failures(m), failedTests(m)...) {
		l.screen.print(l.paint(red, text) + "\n")
	}
	l.screen.print(l.paint(bold, summary(l.screen, m)) + "\n")
}

// printTails prints the ends of the logs of failed tasks, those whose failure is
// allowed last.
func (l *live) printTails(m *model) {
	failed := slices.DeleteFunc(slices.Clone(m.tasks), func(t *task) bool {
		return t.status != run.StatusFailed || len(l.tails[t.source()]) == 0
	})
	slices.SortStableFunc(failed, func(a, b *task) int {
		switch {
		case a.allowed == b.allowed:
			return 0
		case b.allowed:
			return -1
		}
		return 1
	})
	for _, t := range failed[:min(len(failed), tails)] {
		l.screen.print(l.paint(t.style().colour, clean("the end of the log of "+t.name+":")) + "\n")
		for _, line := range l.tails[t.source()] {
			l.screen.print("  " + line.text + "\n")
		}
	}
}
