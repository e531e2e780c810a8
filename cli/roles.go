package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/cli/session"
)

// rolesFlags are shared by all commands on role grants.
type rolesFlags struct {
	env    session.Env
	conn   *session.Connection
	output render.Format
}

func rolesCommand(env session.Env) *cobra.Command {
	f := &rolesFlags{env: env, conn: session.New(env)}
	c := &cobra.Command{
		Use:   "roles",
		Short: "Grant roles to users of the identity provider",
		Long: `Shows and changes the named lists of grants that give roles in groups to users of the OpenID Connect provider, and to groups of
users. All gateways apply them, beside the grants in their files. It requires the scope admin, or the role admin in /**.`,
		Example: `  drover roles list
  drover roles apply -f web-team.yaml
  drover roles get web-team
  drover roles delete web-team`,
	}
	command.Parent(c)
	f.conn.AddTo(c)
	f.output.AddTo(c, render.AsTable)
	c.AddCommand(listRolesCommand(f), getRolesCommand(f), applyRolesCommand(f), deleteRolesCommand(f))
	return c
}

func listRolesCommand(f *rolesFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the role grants",
		Long: `Lists all grants: the stored ones, with the name of their list, and those in the file of the gateway that answers
(gateway.oidc.roles_file).`,
		Example: "  drover roles list\n  drover roles list -o json",
		Args:    cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			answer, err := client.RoleGrants(c.Context())
			if err != nil {
				return err
			}
			if f.output == render.AsJSON {
				return render.JSON(f.env.Stdout, answer.Raw)
			}
			return f.printList(answer.Value)
		},
	}
}

func (f *rolesFlags) printList(all api.RoleGrantsList) error {
	t := render.NewTable(f.env.Stdout, "LIST", "FOR", "ROLE", "GROUPS", "CHANGED", "BY")
	for _, x := range all.Rolegrants {
		if len(x.Grants) == 0 {
			t.Row(x.Name, "", "", "", f.env.Ago(x.UpdatedAt), x.UpdatedBy)
		}
		for _, g := range x.Grants {
			t.Row(x.Name, grantee(g), string(g.Role), strings.Join(g.Groups, " "), f.env.Ago(x.UpdatedAt), x.UpdatedBy)
		}
	}
	for _, g := range all.File {
		t.Row("(file)", grantee(g), string(g.Role), strings.Join(g.Groups, " "), "", "")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, x := range all.Rolegrants {
		switch {
		case x.Issuer != all.Issuer:
			_, _ = fmt.Fprintf(f.env.Stderr, "%s has no effect here: it is for users of %s, and this gateway has %s\n", x.Name, render.Plain(x.Issuer), render.Plain(all.Issuer))
		case x.Unknown > 0:
			_, _ = fmt.Fprintf(f.env.Stderr, "%s has %s that this gateway does not understand and does not apply: a newer version stored them\n", x.Name, count(x.Unknown, "more grant"))
		}
	}
	return nil
}

// grantee says to whom a grant gives the role.
func grantee(g api.RoleGrant) string {
	switch {
	case g.Members != "":
		return "members of " + g.Members
	case g.Subject == "*":
		return "all users"
	}
	return g.Subject
}

func getRolesCommand(f *rolesFlags) *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Short: "Show a list of role grants",
		Long: `Shows a list of role grants. With -o json the output is a file for drover roles apply, which refuses it if the list has changed
since.`,
		Example: "  drover roles get web-team\n  drover roles get web-team -o json > web-team.json",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: completeRoles(f.conn, 1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			answer, err := client.RoleGrantsNamed(c.Context(), args[0])
			if err != nil {
				return err
			}
			if f.output == render.AsJSON {
				return render.JSON(f.env.Stdout, answer.Raw)
			}
			x := answer.Value
			t := render.NewTable(f.env.Stdout)
			t.Field("name", x.Name)
			t.Field("note", x.Note)
			t.Field("provider", x.Issuer)
			t.Field("version", strconv.FormatInt(x.Version, 10))
			t.Field("changed", f.env.Clock(x.UpdatedAt)+" by "+x.UpdatedBy)
			if x.Unknown > 0 {
				t.Field("unknown", count(x.Unknown, "grant")+" of a newer version, without effect here")
			}
			if err := t.Flush(); err != nil || len(x.Grants) == 0 {
				return err
			}
			_, _ = fmt.Fprintln(f.env.Stdout)
			t = render.NewTable(f.env.Stdout, "FOR", "ROLE", "GROUPS")
			for _, g := range x.Grants {
				t.Row(grantee(g), string(g.Role), strings.Join(g.Groups, " "))
			}
			return t.Flush()
		},
	}
}

func deleteRolesCommand(f *rolesFlags) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME...", Short: "Delete lists of role grants",
		Long:    `Deletes lists of role grants. The users lose the roles at all gateways within a few seconds, and their open streams end.`,
		Example: "  drover roles delete web-team",
		Args:    cobra.MinimumNArgs(1), ValidArgsFunction: completeRoles(f.conn, 0),
		RunE: func(c *cobra.Command, names []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			return forEach(names, func(name string) error {
				if err := client.DeleteRoleGrants(c.Context(), name); err != nil || f.output == render.AsJSON {
					return err
				}
				_, err := fmt.Fprintf(f.env.Stdout, "role grants %s deleted\n", name)
				return err
			})
		},
	}
}

// completeRoles completes names of lists of role grants, in the manner of completeExecutors.
func completeRoles(conn *session.Connection, most int) completer {
	return completeNames(conn, most, func(ctx context.Context, client *remote.Client) ([]string, error) {
		answer, err := client.RoleGrants(ctx)
		var names []string
		for _, x := range answer.Value.Rolegrants {
			names = append(names, cobra.CompletionWithDesc(x.Name, count(len(x.Grants), "grant")))
		}
		return names, err
	})
}
