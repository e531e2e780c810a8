// Package audit has the commands on the audit log of the gateways.
package audit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/internal/truncate"
)

// maxDetails is how much of the details of a record the table shows, in bytes.
const maxDetails = 60

// Command returns the command audit.
func Command(env session.Env) *cobra.Command {
	conn := session.New(env)
	c := &cobra.Command{
		Use:   "audit",
		Short: "Show who called what, and who was refused",
		Long: `Reads the audit log: a record for each call through the API that changes something, begins a session in a task, or logs a
browser in or out, and for each refusal. It requires the scope admin.`,
		Example: `  drover audit list --subject ana --from 24h
  drover audit export --from 2026-01-01T00:00:00Z > audit.jsonl`,
	}
	command.Parent(c)
	conn.AddTo(c)
	c.AddCommand(listCommand(env, conn), exportCommand(env, conn))
	return c
}

// filter is the flags that select records.
type filter struct {
	params           api.ExportAuditRecordsParams
	result, from, to string
}

func (f *filter) addTo(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.params.Subject, "subject", "", "only calls of this subject")
	flags.StringVar(&f.params.Action, "action", "", "only calls of this operation of the API, such as createRun")
	flags.StringVar(&f.params.Resource, "resource", "", "only calls on this kind of resource, or on one: run, run/ID, pool/NAME")
	flags.StringVar(&f.params.Group, "group", "", "only calls on runs of this group and of all groups below it")
	flags.StringVar(&f.result, "result", "", "only calls with this result: success, failed, refused or unknown")
	flags.StringVar(&f.from, "from", "", "only calls of this time and later")
	flags.StringVar(&f.to, "to", "", "only calls before this time")
	_ = c.RegisterFlagCompletionFunc("result", cobra.FixedCompletions(results(), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("resource", cobra.FixedCompletions(
		[]string{"run", "schedule", "changegroup", "webhook", "executor", "pool", "fleet", "token", "rolegrant", "session"},
		cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
}

func results() []string {
	return []string{string(api.AuditResultSuccess), string(api.AuditResultFailed), string(api.AuditResultRefused), string(api.AuditResultUnknown)}
}

// read checks the flags, and returns the parameters.
func (f *filter) read(env session.Env) (p api.ExportAuditRecordsParams, err error) {
	p = f.params
	if f.result != "" && !slices.Contains(results(), f.result) {
		return p, command.Invalid("--result must be %s, not %q", strings.Join(results(), ", "), f.result)
	}
	p.Result = api.AuditResult(f.result)
	if f.from != "" {
		if p.From, err = env.ParseTime(f.from); err != nil {
			return p, command.Invalid("--from: %w", err)
		}
	}
	if f.to != "" {
		if p.To, err = env.ParseTime(f.to); err != nil {
			return p, command.Invalid("--to: %w", err)
		}
	}
	return p, nil
}

func listCommand(env session.Env, conn *session.Connection) *cobra.Command {
	var f filter
	var cursor string
	var oldestFirst, all bool
	limit, output := 50, render.Format("")
	c := &cobra.Command{
		Use:   "list",
		Short: "List records of the audit log, newest first",
		Long: `Lists records of the audit log, newest first. All flags must match. Times are RFC 3339, or an age: 90m, 36h. The result unknown
says that the gateway did not write the result, or that the call failed in a way in which the change may have been made. DETAILS is
the beginning of the rights that the call gives, to a token or by role grants; -o json has all of them.`,
		Example: `  drover audit list --result refused --from 1h
  drover audit list --resource run/01jv0z6gen4x5q7t9w3m8c2k1r
  drover audit list --group /project/42 --action deleteRun -o json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := f.read(env)
			if err != nil {
				return err
			}
			params := &api.ListAuditRecordsParams{
				Subject: p.Subject, Action: p.Action, Resource: p.Resource, Group: p.Group, Result: p.Result, From: p.From, To: p.To,
				Order: api.OrderDesc, Limit: &limit, Cursor: cursor,
			}
			if oldestFirst {
				params.Order = api.OrderAsc
			}
			if all {
				most := 500
				params.Limit = &most
			}
			return list(c, env, conn, params, all, output)
		},
	}
	f.addTo(c)
	flags := c.Flags()
	flags.IntVar(&limit, "limit", limit, "number of records to list, 1 to 500")
	flags.StringVar(&cursor, "cursor", "", "cursor of the next page, from the previous list")
	flags.BoolVar(&oldestFirst, "oldest-first", false, "oldest first")
	flags.BoolVar(&all, "all", false, "list all records")
	output.AddTo(c, render.AsTable)
	return c
}

func list(c *cobra.Command, env session.Env, conn *session.Connection, params *api.ListAuditRecordsParams, all bool, output render.Format) error {
	client, err := conn.Open()
	if err != nil {
		return err
	}
	pages := render.Pages{Key: "records", Next: "next_cursor", Flag: "--cursor"}
	var records []api.AuditRecord
	err = pages.Read(*params.Limit, all, func(limit int) (json.RawMessage, string, error) {
		params.Limit = &limit
		page, err := client.Audit(c.Context(), params)
		if err != nil {
			return nil, "", err
		}
		records, params.Cursor = append(records, page.Value.Records...), page.Value.NextCursor
		return page.Raw, params.Cursor, nil
	})
	return pages.Show(env.Stdout, env.Stderr, output, func() error { return show(env, records) }, err)
}

func show(env session.Env, records []api.AuditRecord) error {
	t := render.NewTable(env.Stdout, "TIME", "SUBJECT", "ACTION", "RESOURCE", "RESULT", "STATUS", "REMOTE", "DETAILS")
	for _, r := range records {
		t.Row(env.Clock(r.Time), r.Subject, r.Action, resource(r), result(r), status(r), r.Remote, truncate.String(r.Details, maxDetails, "..."))
	}
	return t.Flush()
}

func resource(r api.AuditRecord) string {
	text := r.Resource.Kind
	if r.Resource.ID != "" {
		text += "/" + r.Resource.ID
	}
	if r.Resource.Task != "" {
		text += " task " + r.Resource.Task
	}
	if r.Created != "" {
		text += " created run/" + r.Created
	}
	return text
}

func result(r api.AuditRecord) string {
	if r.Count > 1 {
		return fmt.Sprintf("%s %d times", r.Result, r.Count)
	}
	return string(r.Result)
}

func status(r api.AuditRecord) string {
	if r.Status == 0 {
		return ""
	}
	return strings.TrimSpace(strconv.Itoa(r.Status) + " " + r.Code)
}

func exportCommand(env session.Env, conn *session.Connection) *cobra.Command {
	var f filter
	c := &cobra.Command{
		Use:   "export",
		Short: "Export the audit log as JSON lines, oldest first",
		Long: `Writes all records that match to standard output, oldest first, each as one line of JSON. All flags must match. Times are RFC 3339,
or an age: 90m, 36h. If the exit code is not 0, records may be missing.`,
		Example: `  drover audit export > audit.jsonl
  drover audit export --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z | gzip > 2026-01.jsonl.gz
  drover audit export --result refused | jq -r .remote | sort | uniq -c`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := f.read(env)
			if err != nil {
				return err
			}
			client, err := conn.Open()
			if err != nil {
				return err
			}
			return client.ExportAudit(c.Context(), &p, env.Stdout)
		},
	}
	f.addTo(c)
	return c
}
