package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// schedulesFlags are shared by all commands on schedules.
type schedulesFlags struct {
	env    session.Env
	conn   *session.Connection
	output render.Format
}

func schedulesCommand(env session.Env) *cobra.Command {
	f := &schedulesFlags{env: env, conn: session.New(env)}
	c := &cobra.Command{
		Use:   "schedules",
		Short: "Manage schedules, which create runs at given times",
		Example: `  drover schedules apply -f nightly.yaml
  drover schedules list
  drover schedules trigger nightly`,
	}
	command.Parent(c)
	f.conn.AddTo(c)
	f.output.AddTo(c, render.AsTable)
	c.AddCommand(
		listSchedulesCommand(f), getScheduleCommand(f), applyScheduleCommand(f), deleteScheduleCommand(f),
		pauseScheduleCommand(f), resumeScheduleCommand(f), triggerScheduleCommand(f), backfillScheduleCommand(f),
	)
	return c
}

func listSchedulesCommand(f *schedulesFlags) *cobra.Command {
	params, all, limit := api.ListSchedulesParams{}, false, 25
	c := &cobra.Command{
		Use: "list", Short: "List schedules, by name", Example: "  drover schedules list --all -o json",
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			if all {
				limit = 100
			}
			params.Limit = &limit
			return f.list(c.Context(), client, params, all)
		},
	}
	c.Flags().IntVar(&limit, "limit", limit, "number of schedules to list, 1 to 100")
	c.Flags().StringVar(&params.After, "after", "", "only schedules with names after this one")
	c.Flags().BoolVar(&all, "all", false, "list all schedules")
	return c
}

func (f *schedulesFlags) list(ctx context.Context, client *remote.Client, params api.ListSchedulesParams, all bool) error {
	t := render.NewTable(f.env.Stdout, "NAME", "GROUP", "TIMES", "OVERLAP", "STATE", "NEXT", "FIRED")
	pages := render.Pages{Key: "schedules", Next: "next_after", Flag: "--after"}
	err := pages.Read(*params.Limit, all, func(limit int) (json.RawMessage, string, error) {
		params.Limit = &limit
		page, err := client.Schedules(ctx, &params)
		if err != nil {
			return nil, "", err
		}
		for _, x := range page.Value.Schedules {
			t.Row(x.Name, x.Group, times(x), string(x.Overlap), scheduleState(x), f.next(x), strconv.Itoa(x.Fired))
		}
		params.After = page.Value.NextAfter
		return page.Raw, params.After, nil
	})
	return pages.Show(f.env.Stdout, f.env.Stderr, f.output, t.Flush, err)
}

// times formats the times of a schedule in one line.
func times(x api.Schedule) string {
	all := append([]string(nil), x.Cron...)
	for _, i := range x.Intervals {
		text := "every " + i.Every
		if i.Offset != "" {
			text += " + " + i.Offset
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func scheduleState(x api.Schedule) string {
	if x.Paused {
		return "paused"
	}
	return "active"
}

func (f *schedulesFlags) next(x api.Schedule) string {
	if len(x.Next) == 0 {
		return ""
	}
	return f.env.ClockIn(x.Next[0], x.Timezone)
}

func getScheduleCommand(f *schedulesFlags) *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Short: "Show a schedule with its next times and last firings", Example: "  drover schedules get nightly",
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeSchedules(f.conn, 1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			return f.show(client.Schedule(c.Context(), args[0]))
		},
	}
}

func (f *schedulesFlags) show(answer remote.Answer[api.Schedule], err error) error {
	if err != nil {
		return err
	}
	if f.output == render.AsJSON {
		return render.JSON(f.env.Stdout, answer.Raw)
	}
	x := answer.Value
	t := render.NewTable(f.env.Stdout)
	t.Field("name", x.Name)
	t.Field("runs", x.RunName+" in "+x.Group)
	t.Field("times", times(x))
	t.Field("timezone", x.Timezone)
	t.Field("jitter", x.Jitter)
	t.Field("starts", f.env.ClockIn(x.StartAt, x.Timezone))
	t.Field("ends", f.env.ClockIn(x.EndAt, x.Timezone))
	t.Field("overlap", string(x.Overlap))
	t.Field("catchup window", x.CatchupWindow)
	if x.PauseOnFailure {
		t.Field("on failure", "pause")
	}
	t.Field("secrets", strings.Join(x.SecretNames, ", "))
	t.Field("state", scheduleState(x))
	t.Field("note", x.Note)
	var next []string
	for _, at := range x.Next[:min(len(x.Next), 3)] {
		next = append(next, f.env.ClockIn(at, x.Timezone))
	}
	t.Field("next", strings.Join(next, ", "))
	t.Field("fired", fmt.Sprintf("%d, left out %d (a run was open) and %d (too late)", x.Fired, x.OverlapSkipped, x.CatchupMissed))
	if err := t.Flush(); err != nil || len(x.Recent) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(f.env.Stdout); err != nil {
		return err
	}
	t = render.NewTable(f.env.Stdout, "FOR", "RUN", "PHASE", "RESULT", "ERROR")
	for _, r := range x.Recent {
		t.Row(f.env.ClockIn(r.For, x.Timezone), r.Run, string(r.Phase), string(r.Result), r.Error)
	}
	return t.Flush()
}

func applyScheduleCommand(f *schedulesFlags) *cobra.Command {
	return applier[run.ScheduleSpec, api.Schedule]{
		kind: "schedule", read: spec.ReadSchedule, locate: spec.LocateSchedule, nameOf: func(x *run.ScheduleSpec) string { return x.Name },
		put: func(ctx context.Context, c *remote.Client, name string, _ *run.ScheduleSpec, file *specFile) (remote.Answer[api.Schedule], error) {
			return c.PutSchedule(ctx, name, file.data, file.media())
		},
		show: func(answer remote.Answer[api.Schedule]) error { return f.show(answer, nil) },
	}.bind(&cobra.Command{
		Short: "Create or update a schedule from a file",
		Long: `Creates or updates a schedule. The file, or standard input with -, has the specification of the runs under spec, and beside
it the settings of the schedule: cron, intervals, timezone, jitter, start_at, end_at, overlap, catchup_window,
pause_on_failure, paused, note. The name is in the file, or given by --name.

Without secrets, an existing schedule keeps its secrets if you gave them, or if the rest of the specification is unchanged.
Without paused and note, these are kept.`,
		Example: "  drover schedules apply -f nightly.yaml\n  drover schedules apply -f build.yaml --name nightly",
	}, f.env, f.conn)
}

func deleteScheduleCommand(f *schedulesFlags) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME...", Short: "Delete schedules; their runs continue", Example: "  drover schedules delete nightly",
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: completeSchedules(f.conn, 0),
		RunE: func(c *cobra.Command, names []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			return forEach(names, func(name string) error {
				if err := client.DeleteSchedule(c.Context(), name); err != nil {
					return err
				}
				if f.output == render.AsJSON {
					return nil
				}
				_, err := fmt.Fprintf(f.env.Stdout, "schedule %s deleted\n", name)
				return err
			})
		},
	}
}

func pauseScheduleCommand(f *schedulesFlags) *cobra.Command {
	note := ""
	c := &cobra.Command{
		Use: "pause NAME...", Short: "Pause schedules", Example: "  drover schedules pause nightly --note 'until the disk is replaced'",
	}
	f.runForEach(c, "paused", func(ctx context.Context, client *remote.Client, name string) (remote.Answer[api.Schedule], error) {
		return client.PauseSchedule(ctx, name, api.ScheduleNote{Note: note})
	})
	c.Flags().StringVar(&note, "note", "", "why")
	return c
}

func resumeScheduleCommand(f *schedulesFlags) *cobra.Command {
	note := ""
	c := &cobra.Command{
		Use: "resume NAME...", Short: "Resume paused schedules", Example: "  drover schedules resume nightly",
	}
	f.runForEach(c, "resumed", func(ctx context.Context, client *remote.Client, name string) (remote.Answer[api.Schedule], error) {
		return client.ResumeSchedule(ctx, name, api.ScheduleNote{Note: note})
	})
	c.Flags().StringVar(&note, "note", "", "why")
	return c
}

func triggerScheduleCommand(f *schedulesFlags) *cobra.Command {
	var overlap string
	c := &cobra.Command{
		Use: "trigger NAME...", Short: "Fire schedules now, paused or not",
		Long:    "Fires schedules now. Each run is created shortly afterwards: drover schedules get NAME shows it.",
		Example: "  drover schedules trigger nightly --overlap allow_all",
	}
	f.runForEach(c, "triggered", func(ctx context.Context, client *remote.Client, name string) (remote.Answer[api.Schedule], error) {
		return client.TriggerSchedule(ctx, name, api.ScheduleTrigger{Overlap: api.Overlap(overlap)})
	})
	overlapFlag(c, &overlap)
	return c
}

func backfillScheduleCommand(f *schedulesFlags) *cobra.Command {
	var overlap, from, to string
	c := &cobra.Command{
		Use: "backfill NAME", Short: "Fire a schedule for its times in the past",
		Long:    "Fires a schedule for all its times in an interval, bounds included. Times are RFC 3339, or an age: 90m, 36h.",
		Example: "  drover schedules backfill nightly --from 72h --overlap buffer_all",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: completeSchedules(f.conn, 1),
		RunE: func(c *cobra.Command, args []string) error {
			b := api.ScheduleBackfill{Overlap: api.Overlap(overlap), To: f.env.Now()}
			for _, bound := range []struct {
				flag, text string
				at         *time.Time
			}{{"from", from, &b.From}, {"to", to, &b.To}} {
				if bound.text == "" {
					continue
				}
				at, err := f.env.ParseTime(bound.text)
				if err != nil {
					return command.Invalid("--%s: %w", bound.flag, err)
				}
				*bound.at = at
			}
			if from == "" {
				return command.Invalid("--from is missing")
			}
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			return f.changed("backfilled")(client.BackfillSchedule(c.Context(), args[0], b))
		},
	}
	c.Flags().StringVar(&from, "from", "", "the first time")
	c.Flags().StringVar(&to, "to", "", "the last time (default now)")
	overlapFlag(c, &overlap)
	return c
}

func overlapFlag(c *cobra.Command, overlap *string) {
	c.Flags().StringVar(overlap, "overlap", "", "overlap policy instead of the schedule's own: "+strings.Join(toStrings(run.Overlaps()), ", "))
	_ = c.RegisterFlagCompletionFunc("overlap", cobra.FixedCompletions(toStrings(run.Overlaps()), cobra.ShellCompDirectiveNoFileComp))
}

// runForEach makes c a command that makes one call for each schedule.
func (f *schedulesFlags) runForEach(c *cobra.Command, done string, call func(context.Context, *remote.Client, string) (remote.Answer[api.Schedule], error)) {
	c.Args = cobra.MinimumNArgs(1)
	c.ValidArgsFunction = completeSchedules(f.conn, 0)
	c.RunE = func(c *cobra.Command, names []string) error {
		client, err := f.conn.Open()
		if err != nil {
			return err
		}
		return forEach(names, func(name string) error { return f.changed(done)(call(c.Context(), client, name)) })
	}
}

// changed returns a function that prints what was done with a schedule.
func (f *schedulesFlags) changed(done string) func(remote.Answer[api.Schedule], error) error {
	return func(answer remote.Answer[api.Schedule], err error) error {
		if err != nil {
			return err
		}
		if f.output == render.AsJSON {
			return render.JSON(f.env.Stdout, answer.Raw)
		}
		_, err = fmt.Fprintf(f.env.Stdout, "schedule %s %s\n", answer.Value.Name, done)
		return err
	}
}

// completeSchedules completes names for the first most arguments, or for all
// arguments if most is 0.
func completeSchedules(conn *session.Connection, most int) completer {
	return completeNames(conn, most, func(ctx context.Context, client *remote.Client) ([]string, error) {
		limit := 100
		answer, err := client.Schedules(ctx, &api.ListSchedulesParams{Limit: &limit})
		var names []string
		for _, x := range answer.Value.Schedules {
			names = append(names, cobra.CompletionWithDesc(x.Name, render.Plain(times(x))))
		}
		return names, err
	})
}
