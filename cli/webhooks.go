package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/run"
)

// webhooksFlags are shared by all commands on webhooks.
type webhooksFlags struct {
	env    session.Env
	conn   *session.Connection
	output render.Format
}

func webhooksCommand(env session.Env) *cobra.Command {
	f := &webhooksFlags{env: env, conn: session.New(env)}
	c := &cobra.Command{
		Use:   "webhooks",
		Short: "Deliver events to receivers over HTTP",
		Example: `  drover webhooks set ci --url https://ci.example.com/drover --secret-file secret --event run
  drover webhooks list
  drover webhooks get ci`,
	}
	command.Parent(c)
	f.conn.AddTo(c)
	f.output.AddTo(c, render.AsTable)
	c.AddCommand(listWebhooksCommand(f), getWebhookCommand(f), applyWebhookCommand(f), setWebhookCommand(f), deleteWebhookCommand(f))
	return c
}

func listWebhooksCommand(f *webhooksFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the webhooks with the state of their deliveries", Example: "  drover webhooks list -o json",
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			answer, err := client.Webhooks(c.Context())
			if err != nil {
				return err
			}
			if f.output == render.AsJSON {
				return render.JSON(f.env.Stdout, answer.Raw)
			}
			t := render.NewTable(f.env.Stdout, "NAME", "URL", "EVENTS", "STATE", "DELIVERED", "LAST ATTEMPT", "LAST ERROR")
			for _, w := range answer.Value.Webhooks {
				t.Row(w.Name, w.URL, strings.Join(toStrings(w.Events), ","), webhookState(w), strconv.FormatInt(w.Delivered, 10),
					f.env.Ago(w.LastAttemptAt), w.LastError)
			}
			return t.Flush()
		},
	}
}

// webhookState summarizes the state of the delivery.
func webhookState(w api.Webhook) string {
	switch {
	case !w.Enabled:
		return "disabled"
	case w.Failures > 0:
		return "failing (" + strconv.Itoa(w.Failures) + ")"
	}
	return "ok"
}

func getWebhookCommand(f *webhooksFlags) *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Short: "Show a webhook with the state of its delivery", Example: "  drover webhooks get ci",
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeWebhooks(f.conn, 1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			answer, err := client.Webhook(c.Context(), args[0])
			if err != nil {
				return err
			}
			return f.print(answer)
		},
	}
}

func (f *webhooksFlags) print(answer remote.Answer[api.Webhook]) error {
	if f.output == render.AsJSON {
		return render.JSON(f.env.Stdout, answer.Raw)
	}
	w := answer.Value
	t := render.NewTable(f.env.Stdout)
	t.Field("name", w.Name)
	t.Field("url", w.URL)
	t.Field("events", strings.Join(toStrings(w.Events), ", "))
	t.Field("group", w.Group)
	t.Field("run", w.Run)
	t.Field("state", webhookState(w))
	t.Field("delivered", "up to event "+strconv.FormatInt(w.Delivered, 10))
	t.Field("last attempt", f.env.Clock(w.LastAttemptAt))
	t.Field("last error", w.LastError)
	t.Field("next attempt", f.env.Clock(w.NextAttemptAt))
	t.Field("created", f.env.Clock(w.CreatedAt))
	t.Field("updated", f.env.Clock(w.UpdatedAt))
	return t.Flush()
}

func applyWebhookCommand(f *webhooksFlags) *cobra.Command {
	return newApplier("webhook", "url", (*remote.Client).PutWebhook, f.print).bind(&cobra.Command{
		Short: "Create or update a webhook from a file",
		Long: `Creates or updates a webhook from a YAML or JSON file, or from standard input with -. Its keys are url, events, group, run, enabled,
from and secret. Without secret, an existing webhook keeps its secret. The name is in the file, or given by --name.`,
		Example: "  drover webhooks apply -f ci.yaml",
	}, f.env, f.conn)
}

// webhookChange is the flags of the command set.
type webhookChange struct {
	url, secretFile, group, run, from string
	events                            []string
	enabled                           bool
}

func setWebhookCommand(f *webhooksFlags) *cobra.Command {
	var change webhookChange
	c := &cobra.Command{
		Use:   "set NAME",
		Short: "Create or update a webhook",
		Long: `Creates a webhook, or updates the given settings of an existing one. A change takes effect immediately: a failed delivery is
retried now.

The secret signs deliveries. It is read from a file, or from standard input with --secret-file -.`,
		Example: `  openssl rand -hex 32 > secret
  drover webhooks set ci --url https://ci.example.com/drover --secret-file secret --event run --group /project/42
  drover webhooks set ci --enabled=false
  drover webhooks set ci --from 1200`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeWebhooks(f.conn, 1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			spec, err := change.merge(c, client, args[0])
			if err != nil {
				return err
			}
			if change.secretFile != "" {
				if spec.Secret, err = readSecret(f.env, change.secretFile); err != nil {
					return err
				}
			}
			answer, err := client.PutWebhook(c.Context(), args[0], spec)
			if err != nil {
				return err
			}
			return f.print(answer)
		},
	}
	flags := c.Flags()
	flags.StringVar(&change.url, "url", "", "URL of the receiver, http or https")
	flags.StringVar(&change.secretFile, "secret-file", "", "file with the secret, - for standard input; required for a new webhook")
	flags.StringSliceVar(&change.events, "event", nil, "type of events, run or task (repeatable; default both)")
	flags.StringVar(&change.group, "group", "", "only events of this group, and of all groups below it")
	flags.StringVar(&change.run, "run", "", "only events of this run")
	flags.BoolVar(&change.enabled, "enabled", true, "deliver events")
	flags.StringVar(&change.from, "from", "", `first event to deliver: "now", or a number (default: the current position; "now" for a new webhook)`)
	_ = c.RegisterFlagCompletionFunc("event", cobra.FixedCompletions(toStrings(run.EventTypes()), cobra.ShellCompDirectiveNoFileComp))
	return c
}

// merge returns the existing webhook changed by the flags. The gateway replaces
// the whole webhook, so one of two concurrent changes is lost.
func (w webhookChange) merge(c *cobra.Command, client *remote.Client, name string) (api.WebhookSpec, error) {
	spec := api.WebhookSpec{Enabled: new(true)}
	was, err := client.Webhook(c.Context(), name)
	switch {
	case err == nil:
		v := was.Value
		spec = api.WebhookSpec{URL: v.URL, Events: v.Events, Group: v.Group, Run: v.Run, Enabled: &v.Enabled}
	case run.CodeOf(err) != run.CodeNotFound:
		return spec, err
	}
	given := c.Flags().Changed
	if given("url") {
		spec.URL = w.url
	}
	if given("event") {
		spec.Events = convertAll[api.EventType](w.events)
	}
	if given("group") {
		spec.Group = w.group
	}
	if given("run") {
		spec.Run = w.run
	}
	if given("enabled") {
		spec.Enabled = &w.enabled
	}
	spec.From = api.EventPosition(w.from)
	return spec, nil
}

// maxSecretFile bounds the size of a secret file, in bytes.
const maxSecretFile = 4096

// readSecret reads a secret and removes the line break at its end.
func readSecret(env session.Env, name string) (string, error) {
	in := env.Stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return "", run.Errorf(run.CodeInvalid, "read the secret: %w", err)
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, maxSecretFile))
	if err != nil {
		return "", run.Errorf(run.CodeInvalid, "read the secret: %w", err)
	}
	secret := strings.TrimRight(string(data), "\r\n")
	if secret == "" {
		return "", run.Errorf(run.CodeInvalid, "the secret in %s is empty", name)
	}
	return secret, nil
}

func deleteWebhookCommand(f *webhooksFlags) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME...", Short: "Delete webhooks", Example: "  drover webhooks delete ci",
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: completeWebhooks(f.conn, 0),
		RunE: func(c *cobra.Command, names []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			return forEach(names, func(name string) error {
				if err := client.DeleteWebhook(c.Context(), name); err != nil {
					return err
				}
				if f.output == render.AsJSON {
					return nil
				}
				_, err := fmt.Fprintf(f.env.Stdout, "webhook %s deleted\n", name)
				return err
			})
		},
	}
}

// completeWebhooks completes names for the first most arguments, or for all
// arguments if most is 0.
func completeWebhooks(conn *session.Connection, most int) completer {
	return completeNames(conn, most, func(ctx context.Context, client *remote.Client) ([]string, error) {
		answer, err := client.Webhooks(ctx)
		var names []string
		for _, w := range answer.Value.Webhooks {
			names = append(names, cobra.CompletionWithDesc(w.Name, render.Plain(w.URL)))
		}
		return names, err
	})
}

// completeNames completes the names that list returns, for the first most
// arguments, or for all arguments if most is 0.
func completeNames(conn *session.Connection, most int, list func(context.Context, *remote.Client) ([]string, error)) completer {
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
		names, err := list(ctx, client)
		if err != nil {
			return nil, noFiles
		}
		return names, noFiles
	}
}
