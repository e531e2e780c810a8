package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/cli/rollouts"
	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/internal/retry"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

func fleetsCommand(env session.Env) *cobra.Command {
	c := &cobra.Command{
		Use: "fleets", Short: "Manage fleets of autoscaled executors, and simulate their scaling",
		Example: `  drover fleets apply -f fleet.yaml
  drover fleets list
  drover fleets instances linux
  drover fleets events linux --follow
  drover fleets drain linux --reason "new image"`,
	}
	c.AddCommand(fleetsSimulateCommand(env), fleetsTraceCommand(env))
	f := newRegistryFlags(env, c)
	c.AddCommand(
		applyFleetCommand(f), listFleetsCommand(f), getFleetCommand(f), fleetInstancesCommand(f), fleetEventsCommand(f),
		fleetActionCommand(f, "pause", "Pause a fleet: create and delete no instances", "paused", (*remote.Client).PauseFleet),
		fleetActionCommand(f, "resume", "Resume a fleet: return control to its scaling policy", "resumed", (*remote.Client).ResumeFleet),
		fleetActionCommand(f, "drain", "Drain and delete all instances of a fleet, and create none", "draining", (*remote.Client).DrainFleet),
		scaleFleetCommand(f), deleteFleetCommand(f),
		rollouts.Command(rollouts.Deps{Env: f.env, Conn: f.conn, Output: &f.output, Complete: completeFleets(f.conn, 1)}),
	)
	return c
}

func applyFleetCommand(f *registryFlags) *cobra.Command {
	return applier[spec.Fleet, api.Fleet]{
		kind: "fleet", read: spec.ReadFleet, locate: spec.LocateFleet, nameOf: func(x *spec.Fleet) string { return x.Name },
		put: func(ctx context.Context, c *remote.Client, name string, _ *spec.Fleet, file *specFile) (remote.Answer[api.Fleet], error) {
			return c.PutFleet(ctx, name, file.data, file.media())
		},
		show: f.showFleet,
	}.bind(&cobra.Command{
		Short: "Create or update a fleet from a file",
		Long: `Creates or updates a fleet from a YAML or JSON file, or from standard input with -. The pool of a new fleet must exist: drover
pools set. With allowed_groups, only runs of these groups may use the pool; a file without them keeps those of the fleet. A change
of what an instance is, such as its plugin_config, replaces the instances: drover fleets rollout.`,
		Example: "  drover fleets apply -f fleet.yaml\n  drover fleets apply -f fleet.yaml --name linux",
	}, f.env, f.conn)
}

func listFleetsCommand(f *registryFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the fleets", Example: "  drover fleets list -o json",
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			answer, err := client.Fleets(c.Context())
			if err != nil {
				return err
			}
			if f.output == render.AsJSON {
				return render.JSON(f.env.Stdout, answer.Raw)
			}
			t := render.NewTable(f.env.Stdout, "NAME", "POOL", "PLUGIN", "MODE", "INSTANCES", "WANTED", "QUEUED", "BUSY", "STATUS")
			for _, x := range answer.Value.Fleets {
				t.Row(x.Name, x.Spec.Pool, x.Spec.Plugin, fleetMode(x), instanceCounts(x), strconv.Itoa(x.Status.Target),
					strconv.Itoa(x.Status.Queued), strconv.Itoa(x.Status.Busy), f.fleetHealth(x))
			}
			return t.Flush()
		},
	}
}

func fleetMode(x api.Fleet) string {
	if x.Desired != nil {
		return fmt.Sprintf("%s (%d set manually)", x.Mode, *x.Desired)
	}
	return string(x.Mode)
}

// instanceCounts returns the numbers of instances by state.
func instanceCounts(x api.Fleet) string {
	var parts []string
	total := 0
	for _, state := range slices.Sorted(maps.Keys(x.Counts)) {
		total += x.Counts[state]
		parts = append(parts, fmt.Sprintf("%d %s", x.Counts[state], state))
	}
	if total == 0 {
		return "0"
	}
	return strings.Join(parts, ", ")
}

// fleetStatusTimeout is the age of a fleet's status from which the fleet worker counts
// as lost: the worker updates the status every 15 s.
const fleetStatusTimeout = time.Minute

// fleetHealth summarizes the health of a fleet.
func (f *registryFlags) fleetHealth(x api.Fleet) string {
	switch s := x.Status; {
	case s.Error != "":
		return "error: " + s.Error
	case s.SeenAt.IsZero():
		return "no fleet worker has managed it yet"
	case f.env.Now().Sub(s.SeenAt) > fleetStatusTimeout+x.Spec.Interval(false):
		return "no fleet worker since " + f.env.Ago(s.SeenAt)
	case s.BlockedBy != "":
		return "held by " + s.BlockedBy
	}
	return "ok"
}

func getFleetCommand(f *registryFlags) *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Short: "Show a fleet", Example: "  drover fleets get linux",
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeFleets(f.conn, 1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			answer, err := client.Fleet(c.Context(), args[0])
			if err != nil {
				return err
			}
			return f.showFleet(answer)
		},
	}
}

func (f *registryFlags) showFleet(answer remote.Answer[api.Fleet]) error {
	if f.output == render.AsJSON {
		return render.JSON(f.env.Stdout, answer.Raw)
	}
	x := answer.Value
	t := render.NewTable(f.env.Stdout)
	t.Field("name", x.Name)
	t.Field("pool", x.Spec.Pool)
	t.Field("priority", strconv.Itoa(x.Spec.Priority))
	if len(x.Spec.AllowedGroups) > 0 {
		t.Field("groups", strings.Join(x.Spec.AllowedGroups, ", "))
	}
	if len(x.Spec.Labels) > 0 {
		t.Field("labels", pairs(x.Spec.Labels))
	}
	if x.Spec.Resources != (run.Resources{}) {
		t.Field("resources", run.ShownLabels(x.Spec.Resources.Labels()))
	}
	t.Field("plugin", strings.TrimSpace(x.Spec.Plugin+" "+x.Status.Plugin))
	t.Field("group", x.Status.Group)
	t.Field("bootstrap", x.Spec.BootstrapMethod())
	t.Field("mode", fleetMode(x))
	t.Field("reason", x.Reason)
	t.Field("status", f.fleetHealth(x))
	t.Field("instances", instanceCounts(x))
	t.Field("limits", fleetLimits(x))
	t.Field("slots", fmt.Sprintf("%d busy, %d free, %d to be kept idle", x.Status.Busy, x.Status.Free, x.Status.Idle))
	t.Field("queued", fmt.Sprintf("%s in the pool, %d for this fleet", count(x.Status.Queued, "task"), x.Status.Share))
	t.Field("wanted", count(x.Status.Target, "instance"))
	if x.Status.Failures > 0 {
		t.Field("failures", fmt.Sprintf("%d in a row", x.Status.Failures))
	}
	if s := x.Status.Rollout; x.Revision > 0 {
		revision := strconv.Itoa(x.Revision)
		if s.Revision == x.Revision && s.Phase != run.RolloutComplete {
			revision += fmt.Sprintf(", rollout %s: %s", s.Phase, s.Message)
		}
		t.Field("revision", revision)
	}
	t.Field("changed", f.env.Clock(x.UpdatedAt))
	t.Field("seen", f.env.Ago(x.Status.SeenAt))
	return t.Flush()
}

func fleetLimits(x api.Fleet) string {
	parts := []string{fmt.Sprintf("%d at once on each", max(1, x.Spec.CapacityPerInstance))}
	if n := x.Spec.MaxUseCount; n > 0 {
		parts = append(parts, fmt.Sprintf("%d in the lifetime of an instance", n))
	}
	if n := x.Spec.MaxInstances; n > 0 {
		parts = append(parts, fmt.Sprintf("at most %d instances", n))
	}
	if q := x.Spec.Quota; q != nil {
		parts = append(parts, fmt.Sprintf("quota %s of %g", q.Name, q.Limit))
	}
	return strings.Join(parts, ", ")
}

func fleetInstancesCommand(f *registryFlags) *cobra.Command {
	var params api.ListFleetInstancesParams
	c := &cobra.Command{
		Use: "instances NAME", Short: "List the instances of a fleet with their states and reasons",
		Example: "  drover fleets instances linux\n  drover fleets instances linux --gone -o json",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: completeFleets(f.conn, 1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			answer, err := client.FleetInstances(c.Context(), args[0], &params)
			if err != nil {
				return err
			}
			if f.output == render.AsJSON {
				return render.JSON(f.env.Stdout, answer.Raw)
			}
			t := render.NewTable(f.env.Stdout, "NUMBER", "INSTANCE", "STATE", "CAUSE", "EXECUTOR", "TASKS", "USES", "REVISION", "ASKED", "READY", "GONE", "WHY")
			for _, x := range answer.Value.Instances {
				t.Row(strconv.Itoa(x.Number), x.Instance, string(x.State), string(x.Cause), x.Executor, strconv.Itoa(x.Tasks), strconv.Itoa(x.Uses),
					strconv.Itoa(x.Revision), f.env.Ago(x.RequestedAt), f.env.Ago(x.ReadyAt), f.env.Ago(x.GoneAt), x.Message)
			}
			return t.Flush()
		},
	}
	c.Flags().BoolVar(&params.Gone, "gone", false, "include instances that are gone, the newest thousand")
	return c
}

func fleetEventsCommand(f *registryFlags) *cobra.Command {
	var params api.ListFleetEventsParams
	limit, after, follow := 100, int64(-1), false
	c := &cobra.Command{
		Use: "events NAME", Short: "Show the events of a fleet, with reasons",
		Example: "  drover fleets events linux --limit 20\n  drover fleets events linux --follow",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: completeFleets(f.conn, 1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			params.Limit = &limit
			if after >= 0 {
				params.After = &after
			}
			return f.fleetEvents(c.Context(), client, args[0], params, follow)
		},
	}
	c.Flags().IntVar(&limit, "limit", limit, "number of events, 1 to 1000")
	c.Flags().Int64Var(&after, "after", after, "only events after this number (default: the last events)")
	c.Flags().BoolVar(&follow, "follow", false, "follow new events until interrupted")
	return c
}

// followEvery is the interval at which new events of a fleet are polled.
const followEvery = 500 * time.Millisecond

func (f *registryFlags) fleetEvents(ctx context.Context, client *remote.Client, name string, params api.ListFleetEventsParams, follow bool) error {
	for {
		answer, err := client.FleetEvents(ctx, name, &params)
		if err != nil {
			return err
		}
		if err := f.printFleetEvents(answer, follow); err != nil || !follow {
			return err
		}
		if n := len(answer.Value.Events); n > 0 {
			params.After = &answer.Value.Events[n-1].Number
		} else if params.After == nil {
			params.After = new(int64)
		}
		if retry.Sleep(ctx, followEvery) != nil {
			return nil //nolint:nilerr // the user ended the command
		}
	}
}

func (f *registryFlags) printFleetEvents(answer remote.Answer[api.FleetEventList], lines bool) error {
	if f.output == render.AsJSON && !lines {
		return render.JSON(f.env.Stdout, answer.Raw)
	}
	t := render.NewTable(f.env.Stdout)
	for _, e := range answer.Value.Events {
		if f.output == render.AsJSON {
			if err := render.Line(f.env.Stdout, e); err != nil {
				return err
			}
			continue
		}
		number := ""
		if e.Instance > 0 {
			number = "#" + strconv.Itoa(e.Instance)
		}
		t.Row(f.env.Clock(e.At), number, e.Name, e.Kind, e.By, e.Text)
	}
	if f.output == render.AsJSON {
		return nil
	}
	return t.Flush()
}

func fleetActionCommand(
	f *registryFlags, verb, short, message string,
	call func(*remote.Client, context.Context, string, api.FleetReason) (remote.Answer[api.Fleet], error),
) *cobra.Command {
	reason := ""
	c := &cobra.Command{
		Use: verb + " NAME...", Short: short, Example: fmt.Sprintf("  drover fleets %s linux --reason \"new image\"", verb),
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: completeFleets(f.conn, 0),
		RunE: func(c *cobra.Command, names []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			return forEach(names, func(name string) error {
				answer, err := call(client, c.Context(), name, api.FleetReason{Reason: reason})
				return f.printFleetAction(answer, err, message)
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "reason, shown with the fleet")
	return c
}

func (f *registryFlags) printFleetAction(answer remote.Answer[api.Fleet], err error, message string) error {
	if err != nil {
		return err
	}
	if f.output == render.AsJSON {
		return render.JSON(f.env.Stdout, answer.Raw)
	}
	_, err = fmt.Fprintf(f.env.Stdout, "fleet %s %s\n", answer.Value.Name, message)
	return err
}

func scaleFleetCommand(f *registryFlags) *cobra.Command {
	reason := ""
	c := &cobra.Command{
		Use: "scale NAME INSTANCES", Short: "Set the number of instances manually, until the fleet is resumed",
		Long: `Sets the number of instances of a fleet, within its max_instances. It overrides the scaling policy until drover fleets resume.
Instances with tasks are deleted only after their tasks have ended.`,
		Example: "  drover fleets scale linux 5 --reason \"before the release\"",
		Args:    cobra.ExactArgs(2), ValidArgsFunction: completeFleets(f.conn, 1),
		RunE: func(c *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[1])
			if err != nil || n < 0 {
				return command.Invalid("%s is not a number of instances", args[1])
			}
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			answer, err := client.ScaleFleet(c.Context(), args[0], api.FleetScale{Instances: n, Reason: reason})
			return f.printFleetAction(answer, err, "scales to "+count(n, "instance"))
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "reason, shown with the fleet")
	return c
}

func deleteFleetCommand(f *registryFlags) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME...", Short: "Drain and delete all instances of fleets, and then the fleets",
		Example: "  drover fleets delete linux",
		Args:    cobra.MinimumNArgs(1), ValidArgsFunction: completeFleets(f.conn, 0),
		RunE: func(c *cobra.Command, names []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			return forEach(names, func(name string) error {
				answer, err := client.DeleteFleet(c.Context(), name)
				return f.printFleetAction(answer, err, "is being deleted with its instances: "+instanceCounts(answer.Value))
			})
		},
	}
}
