package simulate

import (
	"encoding/csv"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// Day generates the trace of a working day of several teams in Berlin:
// pipelines of several tasks, most of them in office hours with a dip at noon,
// some in the evening, and a batch at night.
func Day(date time.Time, seed uint64) []Arrival {
	// Pipelines per hour, in UTC.
	perHour := [24]int{1, 0, 0, 0, 1, 2, 6, 14, 22, 24, 20, 12, 18, 24, 22, 16, 9, 5, 4, 3, 3, 2, 2, 1}
	chance := rand.New(rand.NewPCG(seed, 1))
	start := date.UTC().Truncate(24 * time.Hour)
	var all []Arrival
	for hour, pipelines := range perHour {
		for range pipelines {
			at := start.Add(time.Duration(hour)*time.Hour + time.Duration(chance.IntN(3600))*time.Second)
			for range 1 + chance.IntN(8) {
				all = append(all, Arrival{At: at.Add(time.Duration(chance.IntN(40)) * time.Second), Duration: taskDuration(chance)})
			}
		}
	}
	nightly := start.Add(2 * time.Hour)
	for range 24 {
		all = append(all, Arrival{At: nightly, Duration: 2 * taskDuration(chance)})
	}
	slices.SortStableFunc(all, func(a, b Arrival) int { return a.At.Compare(b.At) })
	return all
}

// taskDuration returns a duration of some minutes, and now and then a long one.
func taskDuration(chance *rand.Rand) time.Duration {
	of := []int{20, 40, 60, 90, 120, 150, 180, 240, 300, 420, 600, 1500}
	seconds := of[chance.IntN(len(of))]
	return time.Duration(seconds+chance.IntN(seconds/2)) * time.Second
}

// WriteTrace writes a trace as CSV.
func WriteTrace(w io.Writer, trace []Arrival) error {
	rows := csv.NewWriter(w)
	_ = rows.Write([]string{"time", "duration"}) // Error returns the first failure
	for _, a := range trace {
		_ = rows.Write([]string{a.At.UTC().Format(time.RFC3339), strconv.FormatFloat(a.Duration.Seconds(), 'f', -1, 64)})
	}
	rows.Flush()
	if err := rows.Error(); err != nil {
		return fmt.Errorf("write a trace: %w", err)
	}
	return nil
}
