package simulate

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"
)

// plotHeight is the number of lines of a plot.
const plotHeight = 8

// Table writes results side by side.
func Table(w io.Writer, results []Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "POLICY\tWAIT MEAN\tP50\tP95\tMAX\tMACHINE HOURS\tIDLE\tCOST\tPEAK\tMACHINES\t")
	for _, r := range results {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%.1f\t%.1f\t%.2f\t%d\t%d\t\n", r.Name, r.Waits.Mean.Std(), r.Waits.P50.Std(), r.Waits.P95.Std(), r.Waits.Max.Std(),
			r.MachineHours, r.IdleHours, r.Cost, r.Peak, r.Machines)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return nil
}

// Plot draws machines and waiting tasks over time, with the same scale for all
// results.
func Plot(w io.Writer, results []Result) error {
	machines, waiting := 1.0, 1.0
	for _, r := range results {
		for _, s := range r.Samples {
			machines = max(machines, s.Busy+s.Idle+s.Other)
			waiting = max(waiting, s.Waiting)
		}
	}
	var b bytes.Buffer
	for _, r := range results {
		plot(&b, r, machines, waiting)
	}
	b.WriteString("# with a task   : idle   . starting or stopping   below: waiting tasks\n")
	if _, err := b.WriteTo(w); err != nil {
		return fmt.Errorf("print the plot: %w", err)
	}
	return nil
}

func plot(b *bytes.Buffer, r Result, machines, waiting float64) {
	_, _ = fmt.Fprintf(b, "%s\n", r.Name)
	row := make([]byte, len(r.Samples))
	for line := plotHeight; line > 0; line-- {
		// A cell shows the state at its middle.
		level := (float64(line) - 0.5) / plotHeight * machines
		for i, s := range r.Samples {
			row[i] = cell(s, level)
		}
		_, _ = fmt.Fprintf(b, "%5.0f |%s\n", math.Ceil(float64(line)/plotHeight*machines), bytes.TrimRight(row, " "))
	}
	const shades = " .:-=+*#%@"
	for i, s := range r.Samples {
		row[i] = shades[int(math.Ceil(s.Waiting/waiting*float64(len(shades)-1)))]
	}
	_, _ = fmt.Fprintf(b, "%5.0f >%s\n%s", math.Ceil(waiting), bytes.TrimRight(row, " "), axis(r.Samples))
}

func cell(s Sample, level float64) byte {
	switch {
	case s.Busy >= level:
		return '#'
	case s.Busy+s.Idle >= level:
		return ':'
	case s.Busy+s.Idle+s.Other >= level:
		return '.'
	}
	return ' '
}

// axis labels every eighth of the time.
func axis(samples []Sample) string {
	const parts = 8
	form := "15:04"
	if span := samples[len(samples)-1].At.Sub(samples[0].At); span > 24*time.Hour {
		form = "02 15:04"
	}
	var line strings.Builder
	line.WriteString("       ")
	for i := 0; i < len(samples); i += len(samples) / parts {
		_, _ = fmt.Fprintf(&line, "%-*s", len(samples)/parts, samples[i].At.Format(form))
	}
	return strings.TrimRight(line.String(), " ") + "\n"
}
