package simulate_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drover-run/drover/fleeting/scaling"
	"github.com/drover-run/drover/fleeting/simulate"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

func setting(tb testing.TB, name, text string) simulate.Setting {
	tb.Helper()
	s, err := spec.ReadScaling([]byte(text), spec.FormatYAML)
	require.NoError(tb, err)
	rules, faults := scaling.Compile(*s)
	require.Empty(tb, faults)
	return simulate.Setting{Name: name, Rules: rules}
}

func replay(t *testing.T, trace, policy string, o simulate.Options) simulate.Result {
	t.Helper()
	arrivals, err := simulate.ReadTrace(strings.NewReader(trace))
	require.NoError(t, err)
	r, err := simulate.Run(t.Context(), arrivals, setting(t, "it", policy), o)
	require.NoError(t, err)
	return r
}

// TestRun_by_hand compares the simulation with results that were calculated by
// hand.
func TestRun_by_hand(t *testing.T) {
	t.Parallel()
	two := "time,duration,slots\n2026-03-17T10:00:00Z,10m,2\n"
	const second = run.Duration(time.Second)
	t.Run("on demand", func(t *testing.T) {
		t.Parallel()
		r := replay(t, two, "{max_instances: 1, hold_down: 0s, policy: [{idle_time: 30m}]}", simulate.Options{PricePerHour: 2})
		require.Equal(t, simulate.Waits{Mean: 300 * second, P95: 600 * second, Max: 600 * second}, r.Waits)
		require.InDelta(t, 50.0/60, r.MachineHours, 1e-9, "two consecutive tasks, and half an hour idle")
		require.InDelta(t, 0.5, r.IdleHours, 1e-9)
		require.InDelta(t, 100.0/60, r.Cost, 1e-9)
		require.Equal(t, []int{2, 1, 1}, []int{r.Tasks, r.Peak, r.Machines})
	})
	t.Run("boot", func(t *testing.T) {
		t.Parallel()
		r := replay(t, two, "{capacity_per_instance: 2, hold_down: 0s}", simulate.Options{Boot: 4 * time.Second, Shutdown: time.Hour})
		require.GreaterOrEqual(t, r.Waits.P50, 4*second)
		require.LessOrEqual(t, r.Waits.P50, 5*second)
		require.InDelta(t, 1+10.0/60, r.MachineHours, 0.01)
		require.Zero(t, r.IdleHours)
	})
	t.Run("idle slots exist before tasks arrive", func(t *testing.T) {
		t.Parallel()
		r := replay(t, two, "policy: [{idle_count: 2}]", simulate.Options{Boot: time.Minute})
		require.Zero(t, r.Waits)
		require.Equal(t, 4, r.Peak, "replacements start while both tasks run")
		require.InDelta(t, 48, r.IdleHours, 0.2)
	})
	t.Run("exhausted", func(t *testing.T) {
		t.Parallel()
		r := replay(t, two, "{max_use_count: 1, capacity_per_instance: 4, hold_down: 0s}", simulate.Options{})
		require.Equal(t, 2, r.Machines)
	})
}

func TestReadTrace(t *testing.T) {
	t.Parallel()
	csv := "time,duration,slots\n90,30,1\n# a comment\n60,1m30s,2\n"
	lines := `{"time": 90, "duration": 30}` + "\n\n" + `{"time": "60", "duration": "1m30s", "slots": 2}` + "\n"
	monday := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	one := simulate.Arrival{At: monday.Add(time.Minute), Duration: 90 * time.Second}
	want := []simulate.Arrival{one, one, {At: monday.Add(90 * time.Second), Duration: 30 * time.Second}}
	for _, text := range []string{csv, lines} {
		got, err := simulate.ReadTrace(strings.NewReader(text))
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(want, got))
	}
	for text, detail := range map[string]string{
		"":                                   "no arrivals",
		"time\n":                             "the header is",
		"time,duration\nnow,5\n":             "neither a time",
		"time,duration\n1,-5\n":              "neither a duration",
		"time,duration\n1,NaN\n":             "neither a duration",
		"time,duration\n1h,1\n":              "neither a time",
		"time,duration,slots\n1,1,0\n":       "not a valid number of tasks",
		"time,duration,slots\n1,1,1e9\n":     "not a valid number of tasks",
		"time,duration,slots\n1,1,9999999\n": "more than 1000000 tasks",
		"time,duration\n1,1\n2025-01-01T00:00:00Z,1\n2027-01-01T00:00:00Z,1\n": "longer than",
		`{"at": 1}`:               `not an object with time, duration and slots: there is no field "at" here, only duration, slots, time`,
		`{"time": 1, }`:           "not an object with time, duration and slots: the last item of a map is followed by a comma",
		"{}\n[1]\n":               "not an object with time, duration and slots: a list where a map is expected",
		"time,duration\n1,1,1\n":  "the line has more or fewer columns than the header",
		"time,duration\n1,\"1\n":  "a quote is not closed",
		"time,duration\n1,a\"1\n": "a quote is not closed",
	} {
		_, err := simulate.ReadTrace(strings.NewReader(text))
		var coded *run.Error
		require.ErrorAs(t, err, &coded, text)
		said := coded.Message
		for _, f := range coded.Faults {
			said += f.Detail
		}
		require.Contains(t, said, detail, text)
	}
}

// TestRun_properties: every task runs, and the totals are consistent.
func TestRun_properties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		var trace []simulate.Arrival
		at := time.Date(2026, 3, 17, 8, 0, 0, 0, time.UTC)
		work := time.Duration(0)
		for range rapid.IntRange(1, 40).Draw(r, "tasks") {
			at = at.Add(time.Duration(rapid.IntRange(0, 600).Draw(r, "gap")) * time.Second)
			a := simulate.Arrival{At: at, Duration: time.Duration(rapid.IntRange(0, 1000).Draw(r, "duration")) * time.Second}
			trace = append(trace, a)
			work += a.Duration
		}
		hold := run.Duration(time.Duration(rapid.IntRange(0, 120).Draw(r, "hold_down")) * time.Second)
		s := run.Scaling{
			CapacityPerInstance: rapid.IntRange(1, 3).Draw(r, "capacity"), MaxUseCount: rapid.IntRange(0, 5).Draw(r, "max_use"),
			MaxInstances: rapid.IntRange(1, 6).Draw(r, "max_instances"), HoldDown: &hold,
			Policy: []run.ScalingPolicy{{
				IdleCount: rapid.IntRange(0, 5).Draw(r, "idle_count"), IdleTime: run.Duration(time.Duration(rapid.IntRange(0, 600).Draw(r, "idle_time")) * time.Second),
				ScaleFactor: rapid.SampledFrom([]float64{0, 0.5, 2}).Draw(r, "factor"),
			}},
		}
		rules, faults := scaling.Compile(s)
		require.Empty(r, faults)
		o := simulate.Options{Boot: time.Duration(rapid.IntRange(0, 300).Draw(r, "boot")) * time.Second, Shutdown: 10 * time.Second, PricePerHour: 1}
		got, err := simulate.Run(t.Context(), trace, simulate.Setting{Rules: rules}, o)
		require.NoError(r, err)
		require.Equal(r, len(trace), got.Tasks)
		require.LessOrEqual(r, got.Peak, s.MaxInstances)
		require.GreaterOrEqual(r, got.MachineHours*float64(s.CapacityPerInstance)+1e-6, work.Hours())
		require.LessOrEqual(r, got.IdleHours, got.MachineHours)
		require.LessOrEqual(r, got.Waits.P50, got.Waits.P95)
		require.LessOrEqual(r, got.Waits.P95, got.Waits.Max)
		again, err := simulate.Run(t.Context(), trace, simulate.Setting{Rules: rules}, o)
		require.NoError(r, err)
		require.Empty(r, cmp.Diff(got, again))
	})
}

func FuzzReadTrace(f *testing.F) {
	for _, text := range []string{"time,duration\n1,2\n", "time,duration,slots\n2026-03-17T10:00:00Z,1m,3\n", `{"time":1,"duration":"2s"}`, "{", "time,duration\n\"", "time,duration\n1,1e99\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		trace, err := simulate.ReadTrace(bytes.NewReader(text))
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		require.NotEmpty(t, trace)
		for i, a := range trace {
			require.GreaterOrEqual(t, a.Duration, time.Duration(0))
			require.False(t, i > 0 && a.At.Before(trace[i-1].At))
		}
	})
}

// TestDay compares the checked-in trace with the generator, and the table in
// the documentation with the replay.
func TestDay(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "examples", "fleets")
	want, err := os.ReadFile(filepath.Join(dir, "day.csv"))
	require.NoError(t, err)
	var made bytes.Buffer
	require.NoError(t, simulate.WriteTrace(&made, simulate.Day(time.Date(2026, 3, 17, 0, 0, 0, 0, time.UTC), 1)))
	require.Equal(t, string(want), made.String(), "generate it again with drover fleets trace")
	trace, err := simulate.ReadTrace(&made)
	require.NoError(t, err)
	var results []simulate.Result
	for _, name := range []string{"on-demand", "office-hours", "warm"} {
		text, err := os.ReadFile(filepath.Join(dir, name+".yaml"))
		require.NoError(t, err)
		r, err := simulate.Run(t.Context(), trace, setting(t, name, string(text)), simulate.Options{Boot: time.Minute, Shutdown: 20 * time.Second, PricePerHour: 0.10, Seed: 1})
		require.NoError(t, err)
		results = append(results, r)
	}
	var shown bytes.Buffer
	require.NoError(t, simulate.Table(&shown, results))
	shown.WriteByte('\n')
	require.NoError(t, simulate.Plot(&shown, results))
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "fleets-simulator.md"))
	require.NoError(t, err)
	require.Contains(t, string(doc), "```text\n"+shown.String()+"```\n", "the documentation shows a different table")
}
