package cli

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/fleeting/scaling"
	"github.com/drover-run/drover/fleeting/simulate"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// simulateFlags are the flags of the command that simulates scaling policies.
type simulateFlags struct {
	policies []string
	trace    string
	noPlot   bool
	output   render.Format
	options  simulate.Options
}

func fleetsSimulateCommand(env session.Env) *cobra.Command {
	var f simulateFlags
	c := &cobra.Command{
		Use:   "simulate --policy FILE... --trace FILE",
		Short: "Simulate scaling settings on a trace of arrivals",
		Long: `Replays a trace of arrivals against scaling settings (YAML or JSON), and prints for each how long tasks waited and what machines
cost, side by side. It uses no gateway and no cloud.

A trace has one arrival a line: CSV with the header time,duration or time,duration,slots, or JSON objects with these keys. Times are
RFC 3339 or seconds; durations are such as 1m30s or seconds; slots is the number of such tasks that arrive together. Days are in UTC.`,
		Example: "  drover fleets simulate --policy examples/fleets/on-demand.yaml --policy examples/fleets/warm.yaml --trace examples/fleets/day.csv",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return f.run(c.Context(), env) },
	}
	c.Flags().StringArrayVar(&f.policies, "policy", nil, "file with scaling settings; may be repeated")
	c.Flags().StringVar(&f.trace, "trace", "", "file with arrivals (\"-\" is the standard input)")
	c.Flags().DurationVar(&f.options.Boot, "boot", time.Minute, "time from the request of a machine until it is ready; each takes up to a quarter longer")
	c.Flags().DurationVar(&f.options.Shutdown, "shutdown", 20*time.Second, "time from the end of a machine's drain until it is gone")
	c.Flags().Float64Var(&f.options.PricePerHour, "price", 0.10, "price of a machine per hour")
	c.Flags().Uint64Var(&f.options.Seed, "seed", 1, "seed of the random numbers")
	c.Flags().BoolVar(&f.noPlot, "no-plot", false, "print only the table")
	f.output.AddTo(c, render.AsTable)
	for _, name := range []string{"policy", "trace"} {
		_ = c.MarkFlagFilename(name)
	}
	return c
}

func (f *simulateFlags) run(ctx context.Context, env session.Env) error {
	if len(f.policies) == 0 || f.trace == "" {
		return command.Invalid("--policy and --trace are required")
	}
	const longest = 24 * time.Hour
	if o := f.options; o.Boot < 0 || o.Boot > longest || o.Shutdown < 0 || o.Shutdown > longest || math.IsNaN(o.PricePerHour) || o.PricePerHour < 0 {
		return command.Invalid("--boot and --shutdown must be durations up to %s, and --price must not be negative", longest)
	}
	var settings []simulate.Setting
	for _, name := range f.policies {
		s, err := readSetting(env, name)
		if err != nil {
			return err
		}
		settings = append(settings, s)
	}
	trace, err := readTrace(env, f.trace)
	if err != nil {
		return err
	}
	var results []simulate.Result
	for _, s := range settings {
		r, err := simulate.Run(ctx, trace, s, f.options)
		if err != nil {
			return fmt.Errorf("simulate %s: %w", s.Name, err)
		}
		results = append(results, r)
	}
	if f.output == render.AsJSON {
		return render.Line(env.Stdout, results)
	}
	if err := simulate.Table(env.Stdout, results); err != nil || f.noPlot {
		return err
	}
	_, _ = fmt.Fprintln(env.Stdout)
	return simulate.Plot(env.Stdout, results)
}

// readSetting reads a file of settings. The setting has the name of the file.
func readSetting(env session.Env, name string) (simulate.Setting, error) {
	file, err := readSpecFile(env, name)
	if err != nil {
		return simulate.Setting{}, err
	}
	s, err := spec.ReadScaling(file.data, file.format)
	if err != nil {
		return simulate.Setting{}, file.faultOf(err, spec.LocateScaling)
	}
	rules, faults := scaling.Compile(*s)
	if len(faults) > 0 {
		return simulate.Setting{}, file.faultOf(run.InvalidError("the scaling settings are not valid", faults), spec.LocateScaling)
	}
	base := filepath.Base(file.name)
	return simulate.Setting{Name: render.Plain(strings.TrimSuffix(base, filepath.Ext(base))), Rules: rules}, nil
}

func readTrace(env session.Env, name string) ([]simulate.Arrival, error) {
	file, err := readSpecFile(env, name)
	if err != nil {
		return nil, err
	}
	trace, err := simulate.ReadTrace(bytes.NewReader(file.data))
	if err != nil {
		return nil, file.faultOf(err, func(faults []run.Fault, _ []byte, _ spec.Format) []run.Fault { return faults })
	}
	return trace, nil
}

func fleetsTraceCommand(env session.Env) *cobra.Command {
	var date string
	var seed uint64
	c := &cobra.Command{
		Use:   "trace",
		Short: "Generate the arrivals of a working day",
		Long:  "Prints a generated trace for drover fleets simulate: a working day of some teams, with a batch at night.",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			at, err := time.Parse(time.DateOnly, date)
			if err != nil {
				return command.Invalid("--date takes a date such as 2026-03-17, not %q", date)
			}
			return simulate.WriteTrace(env.Stdout, simulate.Day(at, seed))
		},
	}
	c.Flags().StringVar(&date, "date", "2026-03-17", "the day, a Tuesday")
	c.Flags().Uint64Var(&seed, "seed", 1, "seed of the random numbers")
	return c
}
