package simulate

import (
	"slices"
	"time"

	"github.com/drover-run/drover/run"
)

// columns is the number of samples: as many as fit on a line.
const columns = 96

// counts is the state at one time.
type counts struct{ machines, busy, idle, waiting int }

// sums integrates counts over time.
type sums struct{ machines, busy, idle, waiting time.Duration }

func (s *sums) add(c counts, d time.Duration) {
	s.machines += time.Duration(c.machines) * d
	s.busy += time.Duration(c.busy) * d
	s.idle += time.Duration(c.idle) * d
	s.waiting += time.Duration(c.waiting) * d
}

// meter integrates the counts of a simulation.
type meter struct {
	start, end, now time.Time
	total           sums
	spans           []sums
	peak            int
}

func newMeter(start, end time.Time) *meter {
	return &meter{start: start, end: end, now: start, spans: make([]sums, columns)}
}

// advance adds the current counts up to a time. Time after the end counts only in
// the total.
func (m *meter) advance(t time.Time, c counts) {
	m.peak = max(m.peak, c.machines)
	if !t.After(m.now) {
		return
	}
	m.total.add(c, t.Sub(m.now))
	width := m.end.Sub(m.start) / columns
	for from := m.now; from.Before(t) && from.Before(m.end); {
		i := min(columns-1, int(from.Sub(m.start)/width))
		to := m.start.Add(time.Duration(i+1) * width)
		if i == columns-1 {
			to = m.end
		}
		if t.Before(to) {
			to = t
		}
		m.spans[i].add(c, to.Sub(from))
		from = to
	}
	m.now = t
}

func (m *meter) samples() []Sample {
	width := m.end.Sub(m.start) / columns
	all := make([]Sample, 0, columns)
	for i, s := range m.spans {
		average := func(d time.Duration) float64 { return float64(d) / float64(width) }
		all = append(all, Sample{
			At: m.start.Add(time.Duration(i) * width), Busy: average(s.busy), Idle: average(s.idle),
			Other: average(s.machines - s.busy - s.idle), Waiting: average(s.waiting),
		})
	}
	return all
}

func waits(all []time.Duration) Waits {
	slices.Sort(all)
	at := func(percent int) run.Duration {
		return run.Duration(all[(len(all)*percent+99)/100-1].Round(time.Second))
	}
	sum := time.Duration(0)
	for _, d := range all {
		sum += d
	}
	mean := run.Duration((sum / time.Duration(len(all))).Round(time.Second))
	return Waits{Mean: mean, P50: at(50), P95: at(95), Max: at(100)}
}
