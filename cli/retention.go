package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
)

// retentionFlags are shared by all commands on what is kept.
type retentionFlags struct {
	env    Env
	conn   *connection
	output format
}

func retentionCommand(env Env) *cobra.Command {
	f := &retentionFlags{env: env, conn: &connection{env: env}}
	c := &cobra.Command{
		Use:   "retention",
		Short: "Show what is kept for how long, and what would be removed",
		Example: `  drover retention show
  drover retention preview --runs-max-age 720h`,
	}
	parent(c)
	f.conn.addTo(c)
	f.output.addTo(c, formatTable)
	c.AddCommand(showRetentionCommand(f), previewRetentionCommand(f))
	return c
}

func showRetentionCommand(f *retentionFlags) *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Show what is kept, what was removed, and when the next look is",
		Long: `Shows what the control workers are configured to keep of each kind, how much of it was removed since when, and when they
look again. The settings are those of the section retention, and of archives.`,
		Example: "  drover retention show\n  drover retention show -o json",
		Args:    cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := f.conn.open()
			if err != nil {
				return err
			}
			answer, err := client.Retention(c.Context())
			if err != nil {
				return err
			}
			if f.output == formatJSON {
				return printJSON(f.env.Stdout, answer.Raw)
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
	t := newTable(f.env.Stdout)
	t.field("looks every", v.Policy.Interval)
	if v.Policy.PerSecond > 0 {
		t.field("removes", strconv.Itoa(v.Policy.PerSecond)+" in a second")
	}
	if v.Removing != "" {
		t.field("state", "it removes "+string(v.Removing))
	}
	t.field("looks again", f.env.clock(v.NextLookAt))
	t.field("counted since", f.env.clock(v.Since))
	if err := t.flush(); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(f.env.Stdout); err != nil {
		return err
	}
	t = newTable(f.env.Stdout, "KIND", "KEPT", "REMOVED", "BYTES")
	for _, sum := range v.Removed {
		t.row(string(sum.Kind), keptText(sum.Kind, v.Policy), strconv.FormatInt(sum.Count, 10), countText(sum.Bytes))
	}
	return t.flush()
}

// keptText tells in a few words what is kept of a kind.
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
		return "each for its own time"
	case api.RetentionKindCaches:
		add(p.CacheMaxAge != "", p.CacheMaxAge+" after they were used")
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
		return "for ever"
	}
	return strings.Join(all, between)
}

// countText leaves out what is not known.
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
		Use: "preview", Aliases: []string{"dry-run"}, Short: "Show what would be removed now; nothing is",
		Long: `Shows by kind how much is kept no longer and still there, with the oldest of it: what the next look removes, if that is now.
Nothing is removed. Each flag stands for the setting of its name in place of the configured one, so that a setting can be
tried before it is made; 0 is no bound. Durations are like 720h.`,
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
			client, err := f.conn.open()
			if err != nil {
				return err
			}
			answer, err := client.PreviewRetention(c.Context(), &params)
			if err != nil {
				return err
			}
			if f.output == formatJSON {
				return printJSON(f.env.Stdout, answer.Raw)
			}
			return f.preview(answer.Value)
		},
	}
	flags := c.Flags()
	flags.StringVar(&params.LogsMaxAge, "logs-max-age", "", "of logs, since the end of their run")
	flags.StringVar(&params.RunsMaxAge, "runs-max-age", "", "of runs, since they were made")
	flags.IntVar(&runsKeep, "runs-keep", 0, "how many of the newest runs of each group stay")
	flags.StringVar(&params.EventsMaxAge, "events-max-age", "", "of events")
	flags.Int64Var(&eventsKeep, "events-keep", 0, "how many of the newest events stay")
	flags.StringVar(&params.WorkspaceMaxAge, "workspace-max-age", "", "of workspaces, since the end of their run")
	flags.StringVar(&params.CacheMaxAge, "cache-max-age", "", "of caches, since they were used")
	flags.Int64Var(&cacheBytes, "cache-total-bytes", 0, "of all caches together")
	flags.IntVar(&limit, "limit", limit, "how many things to list of each kind, 0 to 100")
	return c
}

func (f *retentionFlags) preview(v api.RetentionPreview) error {
	t := newTable(f.env.Stdout, "KIND", "DUE", "BYTES", "OLDEST")
	listed := 0
	for _, due := range v.Due {
		t.row(string(due.Kind), strconv.FormatInt(due.Count, 10), countText(due.Bytes), f.env.clock(due.Oldest))
		listed += len(due.First)
	}
	if err := t.flush(); err != nil || listed == 0 {
		return err
	}
	if _, err := fmt.Fprintln(f.env.Stdout); err != nil {
		return err
	}
	t = newTable(f.env.Stdout, "KIND", "FIRST", "BYTES", "SINCE")
	for _, due := range v.Due {
		for _, x := range due.First {
			t.row(string(due.Kind), itemText(due.Kind, x), countText(x.Bytes), f.env.clock(x.Since))
		}
	}
	return t.flush()
}

// itemText names a thing.
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
