package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/cli/session"
)

// completionTimeout bounds how long a shell completion may take.
const completionTimeout = 2 * time.Second

const noFiles = cobra.ShellCompDirectiveNoFileComp

type completer = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completeRun completes ids of runs for the first most arguments, or for all
// arguments if most is 0.
func (f *runsFlags) completeRun(most int) completer {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, noFiles
		}
		ids, directive := runIDs(c, f.conn)
		return slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(args, id) }), directive
	}
}

// completeTasks completes the id of a run, and then the names of its tasks for
// which suits is true.
func (f *runsFlags) completeTasks(accept func(api.Task) bool) completer {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return runIDs(c, f.conn)
		}
		return f.taskNames(c, args[0], accept)
	}
}

// completeTaskFlag completes the names of the tasks of the run in the first
// argument.
func (f *runsFlags) completeTaskFlag(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, noFiles
	}
	return f.taskNames(c, args[0], nil)
}

func (f *runsFlags) taskNames(c *cobra.Command, id string, accept func(api.Task) bool) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := completionContext(c)
	defer cancel()
	client, err := f.conn.Open()
	if err != nil {
		return nil, noFiles
	}
	answer, err := client.Run(ctx, id)
	if err != nil {
		return nil, noFiles
	}
	var names []string
	for _, name := range sortedTaskNames(answer.Value.Tasks) {
		if t := answer.Value.Tasks[name]; accept == nil || accept(t) {
			names = append(names, cobra.CompletionWithDesc(name, string(t.Status)))
		}
	}
	return names, noFiles
}

// runIDs returns the ids of the newest runs.
func runIDs(c *cobra.Command, conn *session.Connection) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := completionContext(c)
	defer cancel()
	client, err := conn.Open()
	if err != nil {
		return nil, noFiles
	}
	most := 50
	answer, err := client.Runs(ctx, &api.ListRunsParams{Limit: &most})
	if err != nil {
		return nil, noFiles
	}
	var ids []string
	for _, r := range answer.Value.Runs {
		ids = append(ids, cobra.CompletionWithDesc(r.ID, fmt.Sprintf("%s, %s, %s", render.Plain(r.Name), r.Phase, r.Result)))
	}
	return ids, noFiles | cobra.ShellCompDirectiveKeepOrder
}

// completeExecutors and completePools complete names for the first most
// arguments, or for all arguments if most is 0.
func completeExecutors(conn *session.Connection, most int) completer {
	return completeNames(conn, most, func(ctx context.Context, client *remote.Client) ([]string, error) {
		answer, err := client.Executors(ctx)
		var ids []string
		for _, e := range answer.Value.Executors {
			ids = append(ids, cobra.CompletionWithDesc(e.ID, fmt.Sprintf("%s, %s", e.Pool, e.State)))
		}
		return ids, err
	})
}

func completePools(conn *session.Connection, most int) completer {
	return completeNames(conn, most, func(ctx context.Context, client *remote.Client) ([]string, error) {
		answer, err := client.Pools(ctx)
		var names []string
		for _, p := range answer.Value.Pools {
			names = append(names, cobra.CompletionWithDesc(p.Name, p.Driver))
		}
		return names, err
	})
}

// completeFleets completes names of fleets, in the manner of completeExecutors.
func completeFleets(conn *session.Connection, most int) completer {
	return completeNames(conn, most, func(ctx context.Context, client *remote.Client) ([]string, error) {
		answer, err := client.Fleets(ctx)
		var names []string
		for _, x := range answer.Value.Fleets {
			names = append(names, cobra.CompletionWithDesc(x.Name, "pool "+x.Spec.Pool))
		}
		return names, err
	})
}

// completeChangeGroups completes names of change groups, in the manner of
// completeRun.
func completeChangeGroups(conn *session.Connection, most int) completer {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, noFiles
		}
		ctx, cancel := completionContext(c)
		defer cancel()
		client, err := conn.Open()
		if err != nil {
			return nil, noFiles
		}
		limit := 100
		page, err := client.ChangeGroups(ctx, &api.ListChangeGroupsParams{Limit: &limit})
		if err != nil {
			return nil, noFiles
		}
		var names []string
		for _, g := range page.Value.Changegroups {
			if !slices.Contains(args, g.Name) {
				names = append(names, cobra.CompletionWithDesc(g.Name, fmt.Sprintf("%d running, %d queued", len(g.Running), len(g.Queued))))
			}
		}
		return names, noFiles
	}
}

func completionContext(c *cobra.Command) (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.Context(), completionTimeout)
}
