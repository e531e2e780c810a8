// Package tokens has the client commands on the bearer tokens of gateways.
package tokens

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/cli/session"
)

// ListCommand returns the command list.
func ListCommand(env session.Env) *cobra.Command {
	conn, output := session.New(env), render.Format("")
	c := &cobra.Command{
		Use:   "list",
		Short: "List the tokens of a gateway, with expiry and last use",
		Long: `Lists the tokens in the token file of a gateway, and those that were created at a gateway, by name: scopes, the groups or the
executor that a token is bound to, expiry and last use. The last use is that at any gateway, up to a minute late. It requires the scope admin.`,
		Example:           "  drover tokens list\n  drover tokens list -o json",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := conn.Open()
			if err != nil {
				return err
			}
			answer, err := client.Tokens(c.Context())
			if err != nil {
				return err
			}
			if output == render.AsJSON {
				return render.JSON(env.Stdout, answer.Raw)
			}
			t := render.NewTable(env.Stdout, "NAME", "SCOPES", "BOUND TO", "STATE", "EXPIRES", "LAST USED")
			for _, x := range answer.Value.Tokens {
				used := "never"
				if !x.LastUsedAt.IsZero() {
					used = env.Ago(x.LastUsedAt)
				}
				t.Row(x.Name, strings.Join(x.Scopes, ","), boundTo(x), state(x, env.Now()), env.Clock(x.ExpiresAt), used)
			}
			return t.Flush()
		},
	}
	conn.AddTo(c)
	output.AddTo(c, render.AsTable)
	return c
}

// ParseBindings reads bindings such as viewer=/acme/**,/other/**.
func ParseBindings(texts []string) ([]api.RoleBinding, error) {
	var out []api.RoleBinding
	for _, text := range texts {
		role, groups, found := strings.Cut(text, "=")
		if !found || role == "" || groups == "" {
			return nil, command.Invalid("--bind must be ROLE=PATTERN, such as submitter=/acme/**, not %q", text)
		}
		out = append(out, api.RoleBinding{Role: api.RoleBindingRole(role), Groups: strings.Split(groups, ",")})
	}
	return out, nil
}

// Create creates a token at a gateway, and returns it.
func Create(c *cobra.Command, conn *session.Connection, t api.TokenSpec) (string, error) {
	client, err := conn.Open()
	if err != nil {
		return "", err
	}
	answer, err := client.CreateToken(c.Context(), t)
	return answer.Value.Token, err
}

// Revoke revokes a token at a gateway, and with that at all gateways.
func Revoke(c *cobra.Command, env session.Env, conn *session.Connection, name string) error {
	client, err := conn.Open()
	if err != nil {
		return err
	}
	if _, err = client.RevokeToken(c.Context(), name); err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Stdout, "token %s is revoked; all gateways refuse it within ten seconds\n", name)
	return err
}

func boundTo(t api.BearerToken) string {
	var parts []string
	for _, b := range t.Bindings {
		parts = append(parts, string(b.Role)+" of "+strings.Join(b.Groups, " "))
	}
	for _, p := range []struct{ name, value string }{
		{"executor", t.Executor}, {"pool", t.Pool}, {"set", t.Set}, {"fleet", t.Fleet}, {"instance", t.Instance},
	} {
		if p.value != "" {
			parts = append(parts, p.name+" "+p.value)
		}
	}
	return strings.Join(parts, ", ")
}

func state(t api.BearerToken, now time.Time) string {
	switch {
	case !t.RevokedAt.IsZero():
		return "revoked"
	case !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt):
		return "expired"
	}
	return "valid"
}
