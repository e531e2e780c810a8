// Package approvals has the commands on tasks that wait for approval.
package approvals

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/cli/session"
)

// Command returns the command approvals.
func Command(env session.Env) *cobra.Command {
	conn, output := session.New(env), render.Format("")
	c := &cobra.Command{
		Use:   "approvals",
		Short: "List tasks that wait for approval",
		Example: `  drover approvals list
  drover runs approve ID TASK
  drover runs reject ID TASK --reason "not during the freeze"`,
	}
	command.Parent(c)
	conn.AddTo(c)
	output.AddTo(c, render.AsTable)
	c.AddCommand(listCommand(env, conn, &output))
	return c
}

func listCommand(env session.Env, conn *session.Connection, output *render.Format) *cobra.Command {
	group := ""
	c := &cobra.Command{
		Use:   "list",
		Short: "List tasks that wait for approval",
		Long: `Lists all tasks that wait for approval, those of the oldest run first: how many approvals they have, who may give them, and when
they are rejected.`,
		Example:           "  drover approvals list --group /project/42\n  drover approvals list -o json",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := conn.Open()
			if err != nil {
				return err
			}
			const most = 100 // of a page
			params := &api.ListApprovalsParams{Group: group}
			all := render.Pages{Key: "approvals", Next: "next_after"}
			var waiting []api.Approval
			err = all.Read(most, true, func(limit int) (json.RawMessage, string, error) {
				params.Limit = &limit
				page, err := client.Approvals(c.Context(), params)
				if err != nil {
					return nil, "", err
				}
				waiting, params.After = append(waiting, page.Value.Approvals...), page.Value.NextAfter
				return page.Raw, params.After, nil
			})
			return all.Show(env.Stdout, env.Stderr, *output, func() error { return show(env, waiting) }, err)
		},
	}
	c.Flags().StringVar(&group, "group", "", "only of runs of this group and of all groups below it")
	return c
}

func show(env session.Env, waiting []api.Approval) error {
	t := render.NewTable(env.Stdout, "RUN", "NAME", "GROUP", "TASK", "APPROVED", "FROM", "WAITING", "EXPIRES")
	for _, w := range waiting {
		given := fmt.Sprintf("%d of %d", len(w.ApprovedBy), w.Approvers)
		if len(w.ApprovedBy) > 0 {
			given += " (" + strings.Join(w.ApprovedBy, ", ") + ")"
		}
		since := ""
		if !w.WaitingSince.IsZero() {
			since = env.Ago(w.WaitingSince)
		}
		t.Row(w.Run, w.RunName, w.Group, w.Task, given, strings.Join(w.From, ", "), since, env.Clock(w.ExpiresAt))
	}
	return t.Flush()
}
