// Package contexts has the commands on contexts: the gateways that the client
// commands know by a name.
package contexts

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/internal/durable"
	"github.com/drover-run/drover/run"
)

// Command returns the command context.
func Command(env session.Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "context",
		Short: "List and select the gateways that the client commands use",
		Long: `A context is a gateway with a name: its URL, the file with the token and the certificates of its authority. drover login and
drover dev add contexts; the client commands use the current one, or that of --context.`,
		Example: "  drover context list\n  drover context use production\n  drover ps --context dev",
	}
	command.Parent(c)
	c.AddCommand(listCommand(env), useCommand(env), deleteCommand(env))
	return c
}

// listed is a context as list prints it.
type listed struct {
	Name      string `json:"name"`
	Current   bool   `json:"current"`
	Server    string `json:"server"`
	TokenFile string `json:"token_file,omitempty"`
	CACert    string `json:"ca_cert,omitempty"`
}

func listCommand(env session.Env) *cobra.Command {
	output := render.Format("")
	c := &cobra.Command{
		Use: "list", Short: "List the contexts", Long: "Lists the contexts. A star marks the current one.",
		Example: "  drover context list\n  drover context list -o json",
		Args:    cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			all, err := session.ReadContexts(env)
			if err != nil {
				return err
			}
			contexts := make([]listed, 0, len(all.Contexts))
			for _, name := range all.Names() {
				x := all.Contexts[name]
				contexts = append(contexts, listed{Name: name, Current: name == all.Current, Server: x.Server, TokenFile: x.TokenFile, CACert: x.CACert})
			}
			if output == render.AsJSON {
				return render.Line(env.Stdout, map[string]any{"contexts": contexts})
			}
			table := render.NewTable(env.Stdout, "CURRENT", "NAME", "SERVER", "TOKEN FILE")
			for _, x := range contexts {
				table.Row(map[bool]string{true: "*"}[x.Current], x.Name, x.Server, x.TokenFile)
			}
			return table.Flush()
		},
	}
	output.AddTo(c, render.AsTable)
	return c
}

func useCommand(env session.Env) *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Make a context the current one", Example: "  drover context use production",
		Args: cobra.ExactArgs(1), ValidArgsFunction: complete(env),
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := session.ReadContexts(env)
			if err != nil {
				return err
			}
			if _, err := all.Find(args[0]); err != nil {
				return err
			}
			all.Current = args[0]
			_, err = all.Write(env)
			return err
		},
	}
}

func deleteCommand(env session.Env) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "Delete a context, and the token that drover login stored for it", Example: "  drover context delete staging",
		Args: cobra.ExactArgs(1), ValidArgsFunction: complete(env),
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := session.ReadContexts(env)
			if err != nil {
				return err
			}
			known, err := all.Find(args[0])
			if err != nil {
				return err
			}
			delete(all.Contexts, args[0])
			if all.Current == args[0] {
				all.Current = ""
			}
			if _, err := all.Write(env); err != nil {
				return err
			}
			if stored := tokenFile(env, args[0]); known.TokenFile == stored {
				if err := os.Remove(stored); err != nil && !os.IsNotExist(err) {
					return fmt.Errorf("remove the token of %s: %w", args[0], err)
				}
				_ = os.Remove(stored + ".lock") // of a login with --oidc
			}
			return nil
		},
	}
}

func complete(env session.Env) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, _ := session.ReadContexts(env)
		return all.Names(), cobra.ShellCompDirectiveNoFileComp
	}
}

// tokenFile returns the path of the file in which login stores the token of a
// context.
func tokenFile(env session.Env, name string) string {
	return filepath.Join(filepath.Dir(session.ContextPath(env)), "tokens", name)
}

// validName reports whether a text can be the name of a context, which is also the
// name of a file.
func validName(name string) bool {
	return regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$`).MatchString(name)
}

// LoginCommand returns the command login.
func LoginCommand(env session.Env) *cobra.Command {
	name, from, caCert, oidc := "", "", "", false
	c := &cobra.Command{
		Use:   "login SERVER",
		Short: "Store a token for a gateway, and make it the current context",
		Long: `Reads a bearer token from --token-file or the standard input, checks that the gateway accepts it, and stores it in a file that
only you can read. The gateway becomes the current context. An administrator creates tokens with drover tokens create.

With --oidc, log in at the identity provider of the gateway instead: the command prints a page and a code, which you open in a browser
on any device. The login is renewed as long as the provider allows it.`,
		Example: `  drover login https://drover.example.com --name production --token-file token
  drover login https://drover.example.com --oidc
  vault read -field=token secret/drover | drover login https://drover.example.com`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			server := strings.TrimRight(args[0], "/")
			if session.ContextPath(env) == "" {
				return command.Invalid("there is no directory for contexts: set DROVER_CONTEXT")
			}
			if name == "" {
				if u, err := url.Parse(server); err == nil {
					name = u.Hostname() + strings.ReplaceAll(u.Path, "/", "-")
				}
			}
			if !validName(name) {
				return command.Invalid("%q is not the name of a context: use letters, digits, dots, hyphens and underscores, and set it with --name", name)
			}
			if caCert != "" {
				var err error
				if caCert, err = filepath.Abs(caCert); err != nil {
					return fmt.Errorf("find the certificates: %w", err)
				}
			}
			context := session.Context{Server: server, TokenFile: tokenFile(env, name), CACert: caCert}
			if oidc {
				user, err := deviceLogin(c.Context(), env, server, caCert, context.TokenFile)
				if err != nil {
					return err
				}
				if err := use(env, name, context); err != nil {
					return err
				}
				_, err = fmt.Fprintf(env.Stdout, "You are %s. The current context is %s: %s\n", user, name, server)
				return err
			}
			token, err := readToken(env, from)
			if err != nil {
				return err
			}
			if err := check(c, env, server, token, caCert); err != nil {
				return err
			}
			if err := store(env, name, token, context); err != nil {
				return err
			}
			_, err = fmt.Fprintf(env.Stdout, "The current context is %s: %s\n", name, server)
			return err
		},
	}
	c.Flags().StringVar(&name, "name", "", "name of the context (default: the host and path of the server)")
	c.Flags().StringVar(&from, "token-file", "", "file that contains the token; - or none: the standard input")
	c.Flags().BoolVar(&oidc, "oidc", false, "log in at the identity provider of the gateway, in a browser")
	c.MarkFlagsMutuallyExclusive("oidc", "token-file")
	c.Flags().StringVar(&caCert, "ca-cert", "", "file with the certificates of authorities to trust besides those of the system")
	return c
}

func readToken(env session.Env, file string) (string, error) {
	if file == "" || file == "-" {
		if env.IsTerminal() {
			_, _ = fmt.Fprint(env.Stderr, "Token: ")
		}
		return session.ReadTokenInput(env)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", run.Errorf(run.CodeInvalid, "read the token: %w", err)
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		return "", command.Invalid("the token is empty: pass it on the standard input, or with --token-file")
	}
	return text, nil
}

// check makes a call that needs a token.
func check(c *cobra.Command, env session.Env, server, token, caCert string) error {
	client, err := session.Connect(env, server, token, caCert)
	if err != nil {
		return err
	}
	one := 1
	_, err = client.Runs(c.Context(), &api.ListRunsParams{Limit: &one})
	if run.CodeOf(err) == run.CodeForbidden { // the token is known
		return nil
	}
	return err
}

func store(env session.Env, name, token string, context session.Context) error {
	err := durable.MkdirAll(filepath.Dir(context.TokenFile), 0o700)
	if err == nil {
		err = durable.WriteFile(context.TokenFile, []byte(token+"\n"))
	}
	if err != nil {
		return fmt.Errorf("store the token: %w", err)
	}
	return use(env, name, context)
}

// use makes a context the current one.
func use(env session.Env, name string, context session.Context) error {
	all, err := session.ReadContexts(env)
	if err != nil {
		return err
	}
	all.Put(name, context)
	all.Current = name
	_, err = all.Write(env)
	return err
}
