package cli

import (
	"context"
	"errors"
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
	"github.com/drover-run/drover/internal/retry"
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
		Short: "Deliver events to receivers over HTTP, and messages to Slack, Teams and e-mail",
		Example: `  drover webhooks set ci --url https://ci.example.com/drover --secret-file secret --event run
  drover webhooks set alerts --format slack --url-file url --result failed
  drover webhooks list
  drover webhooks get ci`,
	}
	command.Parent(c)
	f.conn.AddTo(c)
	f.output.AddTo(c, render.AsTable)
	c.AddCommand(listWebhooksCommand(f), getWebhookCommand(f), applyWebhookCommand(f), setWebhookCommand(f), testWebhookCommand(f), deleteWebhookCommand(f))
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
	if w.Format != "" && w.Format != api.WebhookFormat(run.WebhookDrover) {
		t.Field("format", string(w.Format))
	}
	t.Field("events", strings.Join(toStrings(w.Events), ", "))
	t.Field("group", w.Group)
	t.Field("groups", strings.Join(w.Groups, ", "))
	t.Field("results", strings.Join(toStrings(w.Results), ", "))
	t.Field("run", w.Run)
	t.Field("from", w.Email.From)
	t.Field("to", strings.Join(w.Email.To, ", "))
	t.Field("user", w.Email.Username)
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
		Long: `Creates or updates a webhook from a YAML or JSON file, or from standard input with -. Its keys are url, format, events, group,
groups, results, run, email, template, enabled, from and secret. Without secret, an existing webhook keeps its secret. The name is in the file, or given by --name.`,
		Example: "  drover webhooks apply -f ci.yaml",
	}, f.env, f.conn)
}

// webhookChange is the flags of the command set.
type webhookChange struct {
	url, urlFile, format, secretFile, group, run, from string
	mailFrom, mailUser                                 string
	events, groups, results, mailTo                    []string
	enabled                                            bool
}

func setWebhookCommand(f *webhooksFlags) *cobra.Command {
	var change webhookChange
	c := &cobra.Command{
		Use:   "set NAME",
		Short: "Create or update a webhook",
		Long: `Creates a webhook, or updates the given settings of an existing one. A change takes effect immediately: a failed delivery is
retried now.

The secret signs deliveries, or is the password of the mail server. It is read from a file, or from standard input with
--secret-file -. The URLs of Slack and Teams are secrets too: --url-file reads them likewise.`,
		Example: `  openssl rand -hex 32 > secret
  drover webhooks set ci --url https://ci.example.com/drover --secret-file secret --event run --group /project/42
  drover webhooks set alerts --format slack --url-file url --event run --result failed --groups '/team/*/deploy'
  drover webhooks set mail --format email --url smtps://mail.example.com --mail-from ci@example.com --mail-to team@example.com
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
			if change.urlFile != "" {
				if spec.URL, err = readSecret(f.env, change.urlFile); err != nil {
					return err
				}
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
	flags.StringVar(&change.url, "url", "", "URL of the receiver, http or https; smtp or smtps for e-mail")
	flags.StringVar(&change.urlFile, "url-file", "", "file with the URL, - for standard input")
	c.MarkFlagsMutuallyExclusive("url", "url-file")
	flags.StringVar(&change.format, "format", "", "form of the deliveries: "+alternatives(run.WebhookFormats())+" (default drover)")
	flags.StringVar(&change.secretFile, "secret-file", "", "file with the secret or the password, - for standard input; required for a new webhook of the format drover")
	flags.StringSliceVar(&change.events, "event", nil, "type of events: "+alternatives(run.EventTypes())+" (repeatable; default all)")
	flags.StringSliceVar(&change.groups, "groups", nil, "only events of groups that match the pattern, and of all groups below (repeatable)")
	flags.StringSliceVar(&change.results, "result", nil, "of runs, only the end with this result: "+alternatives(run.Outcomes())+" (repeatable)")
	flags.StringVar(&change.mailFrom, "mail-from", "", "sender of e-mails")
	flags.StringArrayVar(&change.mailTo, "mail-to", nil, "recipient of e-mails (repeatable)")
	flags.StringVar(&change.mailUser, "mail-user", "", "user of the mail server; --secret-file has the password")
	flags.StringVar(&change.group, "group", "", "only events of this group, and of all groups below it")
	flags.StringVar(&change.run, "run", "", "only events of this run")
	flags.BoolVar(&change.enabled, "enabled", true, "deliver events")
	flags.StringVar(&change.from, "from", "", `first event to deliver: "now", or a number (default: the current position; "now" for a new webhook)`)
	_ = c.RegisterFlagCompletionFunc("event", cobra.FixedCompletions(toStrings(run.EventTypes()), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(toStrings(run.WebhookFormats()), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("result", cobra.FixedCompletions(toStrings(run.Outcomes()), cobra.ShellCompDirectiveNoFileComp))
	return c
}

// alternatives names words of which one is to be given: "a, b or c".
func alternatives[T ~string](words []T) string {
	all := toStrings(words)
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

// merge returns the existing webhook changed by the flags. The gateway replaces
// the whole webhook, so one of two concurrent changes is lost.
func (w webhookChange) merge(c *cobra.Command, client *remote.Client, name string) (api.WebhookSpec, error) {
	spec := api.WebhookSpec{Enabled: new(true)}
	was, err := client.Webhook(c.Context(), name)
	switch {
	case err == nil:
		v := was.Value
		spec = api.WebhookSpec{
			URL: v.URL, Format: v.Format, Events: v.Events, Group: v.Group, Groups: v.Groups, Results: v.Results, Run: v.Run, Email: v.Email,
			Template: v.Template, Enabled: &v.Enabled,
		}
	case run.CodeOf(err) != run.CodeNotFound:
		return spec, err
	}
	given := c.Flags().Changed
	if given("url") {
		spec.URL = w.url
	}
	if given("group") {
		spec.Group = w.group
	}
	if given("run") {
		spec.Run = w.run
	}
	if given("format") {
		if spec.Format != "" && string(spec.Format) != w.format {
			spec.Events = nil // those of the other format
		}
		spec.Format = api.WebhookFormat(w.format)
	}
	if given("event") {
		spec.Events = convertAll[api.EventType](w.events)
	}
	if given("groups") {
		spec.Groups = w.groups
	}
	if given("result") {
		spec.Results = convertAll[api.Outcome](w.results)
	}
	if given("mail-from") {
		spec.Email.From = w.mailFrom
	}
	if given("mail-to") {
		spec.Email.To = w.mailTo
	}
	if given("mail-user") {
		spec.Email.Username = w.mailUser
	}
	if given("enabled") {
		spec.Enabled = &w.enabled
	}
	spec.From = api.EventPosition(w.from)
	return spec, nil
}

// How often and how long test waits for the outcome.
const (
	testPoll    = 250 * time.Millisecond
	testTimeout = time.Minute
)

func testWebhookCommand(f *webhooksFlags) *cobra.Command {
	return &cobra.Command{
		Use: "test NAME", Short: "Send a sample to the receiver of a webhook",
		Long: `Sends a sample to the receiver of a webhook, and waits for the outcome: a delivery without events, or a message of a webhook of
the format slack, teams or email. The control worker that delivers the webhook sends it, once.`,
		Example: "  drover webhooks test alerts",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: completeWebhooks(f.conn, 1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := f.conn.Open()
			if err != nil {
				return err
			}
			answer, err := client.TestWebhook(c.Context(), args[0])
			if err != nil {
				return err
			}
			if answer, err = awaitWebhookTest(c.Context(), client, answer); err != nil {
				return err
			}
			if f.output == render.AsJSON {
				return render.JSON(f.env.Stdout, answer.Raw)
			}
			_, err = fmt.Fprintf(f.env.Stdout, "the receiver of webhook %s accepted the sample\n", args[0])
			return err
		},
	}
}

// awaitWebhookTest waits for the outcome of a requested test. It returns an error
// if the receiver did not accept the sample.
func awaitWebhookTest(ctx context.Context, client *remote.Client, requested remote.Answer[api.Webhook]) (answer remote.Answer[api.Webhook], err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, testTimeout, errors.New("the sample takes too long"))
	defer cancel()
	number := requested.Value.Test.Requested
	for answer = requested; answer.Value.Test.Done < number; {
		if err := retry.Sleep(ctx, testPoll); err != nil {
			return answer, run.Errorf(run.CodeTimeout, "no control worker has sent the sample of webhook %s", requested.Value.Name)
		}
		if answer, err = client.Webhook(ctx, requested.Value.Name); err != nil {
			return answer, err
		}
	}
	if why := answer.Value.Test.Error; why != "" {
		return answer, run.Errorf(run.CodeConflict, "the receiver of webhook %s did not accept the sample: %s", requested.Value.Name, render.Plain(why))
	}
	return answer, nil
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
