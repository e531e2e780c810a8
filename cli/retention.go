package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/cli/session"
)

// retentionFlags are shared by all commands on retention.
type retentionFlags struct {
	env    session.Env
	conn   *session.Connection
	output render.Format
}

func retentionCommand(env session.Env) *cobra.Command {
	f := &retentionFlags{env: env, conn: session.New(env)}
	c := &cobra.Command{
		Use:   "retention",
		Short: "Show retention settings, and what would be removed",
		Example: `  drover retention get
  drover retention preview --runs-max-age 720h`,
	}
	command.Parent(c)
	f.conn.AddTo(c)
	f.output.AddTo(c, render.AsTable)
	c.AddCommand(getRetentionCommand(f), previewRetentionCommand(f))
	return c
}

func getRetentionCommand(f *retentionFlags) *cobra.Command {
	return &cobra.Command{
		Use: "get", Short: "Show retention settings, what was removed, and the time of the next pass",
		Long: `Shows for each kind what the control workers are configured to keep and how much they have removed, and when the next pass
begins. The settings are those of the sections retention and archives.`,
		Example: "  drover retention get\n  drover retention get -o json",
		Args:    cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			answer, err := client.Retention(c.Context())
			if err != nil {
				return err
			}
			if f.output == render.AsJSON {
				return render.JSON(f.env.Stdout, answer.Raw)
			}
			return f.show(answer.Value)
		},
	}
}

func (f *retentionFlags) show(v api.Retention) error {
	if !v.Running {
		_, err := fmt.Fprintln(f.env.Stdout, "Everything is kept: no control worker removes anything.")
		return err
	}
	t := render.NewTable(f.env.Stdout)
	t.Field("interval", v.Policy.Interval)
	if v.Policy.PerSecond > 0 {
		t.Field("limit", strconv.Itoa(v.Policy.PerSecond)+" per second")
	}
	if v.Removing != "" {
		t.Field("state", "removing "+string(v.Removing))
	}
	t.Field("next pass", f.env.Clock(v.NextLookAt))
	t.Field("counted since", f.env.Clock(v.Since))
	if err := t.Flush(); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(f.env.Stdout); err != nil {
		return err
	}
	t = render.NewTable(f.env.Stdout, "KIND", "KEPT", "REMOVED", "BYTES")
	for _, sum := range v.Removed {
		t.Row(string(sum.Kind), keptText(sum.Kind, v.Policy), strconv.FormatInt(sum.Count, 10), countText(sum.Bytes))
	}
	return t.Flush()
}

// keptText summarizes what is kept of a kind.
func keptText(kind api.RetentionKind, p api.RetentionPolicy) string {
	var all []string
	add := func(set bool, text string) {
		if set {
			all = append(all, text)
		}
	}
	between := " or "
	switch kind {
	case api.RetentionKindLogs:
		add(p.LogsMaxAge != "", p.LogsMaxAge+" after the end of the run")
	case api.RetentionKindWorkspaces:
		add(p.WorkspaceMaxAge != "", p.WorkspaceMaxAge+" after the end of the run")
	case api.RetentionKindArtifacts:
		return "according to each artifact"
	case api.RetentionKindCaches:
		add(p.CacheMaxAge != "", p.CacheMaxAge+" after the last use")
		add(p.CacheTotalBytes > 0, strconv.FormatInt(p.CacheTotalBytes, 10)+" bytes")
		between = ", but no more than "
	case api.RetentionKindRuns:
		add(p.RunsMaxAge != "", p.RunsMaxAge)
		add(p.RunsKeep > 0, fmt.Sprintf("the newest %d of each group", p.RunsKeep))
		between = ", and "
	case api.RetentionKindEvents:
		add(p.EventsMaxAge != "", p.EventsMaxAge)
		add(p.EventsKeep > 0, fmt.Sprintf("the newest %d", p.EventsKeep))
		between = ", but no more than "
	}
	if len(all) == 0 {
		switch kind {
		case api.RetentionKindLogs, api.RetentionKindWorkspaces:
			return "as long as the run"
		case api.RetentionKindArtifacts, api.RetentionKindCaches, api.RetentionKindRuns, api.RetentionKindEvents:
		}
		return "forever"
	}
	return strings.Join(all, between)
}

// countText returns "" for an unknown count.
func countText(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func previewRetentionCommand(f *retentionFlags) *cobra.Command {
	var params api.PreviewRetentionParams
	var runsKeep int
	var eventsKeep, cacheBytes int64
	limit := 10
	c := &cobra.Command{
		Use: "preview", Aliases: []string{"dry-run"}, Short: "Show what would be removed now, without removing it",
		Long: `Shows by kind how much is due for removal, with the oldest items: what a pass would remove now. It removes nothing. Each flag
overrides the configured setting of its name, to try a setting before it is configured; 0 is no bound. Durations are like 720h.`,
		Example: `  drover retention preview
  drover retention preview --runs-max-age 720h --runs-keep 100
  drover retention preview --logs-max-age 336h --limit 0 -o json`,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			flags := c.Flags()
			if flags.Changed("runs-keep") {
				params.RunsKeep = &runsKeep
			}
			if flags.Changed("events-keep") {
				params.EventsKeep = &eventsKeep
			}
			if flags.Changed("cache-total-bytes") {
				params.CacheTotalBytes = &cacheBytes
			}
			params.Limit = &limit
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			answer, err := client.PreviewRetention(c.Context(), &params)
			if err != nil {
				return err
			}
			if f.output == render.AsJSON {
				return render.JSON(f.env.Stdout, answer.Raw)
			}
			return f.preview(answer.Value)
		},
	}
	flags := c.Flags()
	flags.StringVar(&params.LogsMaxAge, "logs-max-age", "", "maximum age of logs, since the end of their run")
	flags.StringVar(&params.RunsMaxAge, "runs-max-age", "", "maximum age of runs, since their creation")
	flags.IntVar(&runsKeep, "runs-keep", 0, "number of newest runs of each group to keep")
	flags.StringVar(&params.EventsMaxAge, "events-max-age", "", "maximum age of events")
	flags.Int64Var(&eventsKeep, "events-keep", 0, "number of newest events to keep")
	flags.StringVar(&params.WorkspaceMaxAge, "workspace-max-age", "", "maximum age of workspaces, since the end of their run")
	flags.StringVar(&params.CacheMaxAge, "cache-max-age", "", "maximum age of caches, since their last use")
	flags.Int64Var(&cacheBytes, "cache-total-bytes", 0, "maximum size of all caches together")
	flags.IntVar(&limit, "limit", limit, "number of items of each kind to list, 0 to 100")
	return c
}

func (f *retentionFlags) preview(v api.RetentionPreview) error {
	t := render.NewTable(f.env.Stdout, "KIND", "DUE", "BYTES", "OLDEST")
	listed := 0
	for _, due := range v.Due {
		t.Row(string(due.Kind), strconv.FormatInt(due.Count, 10), countText(due.Bytes), f.env.Clock(due.Oldest))
		listed += len(due.First)
	}
	if err := t.Flush(); err != nil || listed == 0 {
		return err
	}
	if _, err := fmt.Fprintln(f.env.Stdout); err != nil {
		return err
	}
	t = render.NewTable(f.env.Stdout, "KIND", "FIRST", "BYTES", "SINCE")
	for _, due := range v.Due {
		for _, x := range due.First {
			t.Row(string(due.Kind), itemText(due.Kind, x), countText(x.Bytes), f.env.Clock(x.Since))
		}
	}
	return t.Flush()
}

// itemText returns the name of an item.
func itemText(kind api.RetentionKind, x api.RetentionItem) string {
	switch kind {
	case api.RetentionKindCaches:
		return x.Name + " of " + x.Scope
	case api.RetentionKindEvents:
		return fmt.Sprintf("%d of %s", x.Event, x.Run)
	case api.RetentionKindWorkspaces:
		return x.Run + " " + x.Task
	case api.RetentionKindArtifacts:
		return x.Run + " " + x.Task + " " + x.Name
	case api.RetentionKindLogs, api.RetentionKindRuns:
	}
	return x.Run
}
