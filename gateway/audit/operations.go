package audit

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/auditlog"
)

const (
	defaultLimit = 50
	// exportPage is the number of records that an export reads and writes at once.
	exportPage = 500
)

func errNoLog() error {
	return run.Errorf(run.CodeNotSupported, "this gateway keeps no audit log")
}

// ListAuditRecords implements gateway.ServerInterface.
func (a *API) ListAuditRecords(c echo.Context, params api.ListAuditRecordsParams) error {
	if a.recorder == nil {
		return errNoLog()
	}
	q := query(api.ExportAuditRecordsParams{
		Subject: params.Subject, Action: params.Action, Resource: params.Resource, Group: params.Group, Result: params.Result, From: params.From, To: params.To,
	})
	q.Cursor, q.Ascending, q.Limit = params.Cursor, params.Order == api.OrderAsc, defaultLimit
	if params.Limit != nil {
		q.Limit = *params.Limit
	}
	ctx := c.Request().Context()
	if err := a.recorder.flush(ctx); err != nil { // clients expect their own calls
		return err
	}
	page, err := a.log.ListAudit(ctx, q)
	if err != nil {
		return err
	}
	v := api.AuditPage{Records: make([]api.AuditRecord, len(page.Records)), NextCursor: page.Next}
	for i, r := range page.Records {
		v.Records[i] = view(r)
	}
	return c.JSON(http.StatusOK, v)
}

// ExportAuditRecords implements gateway.ServerInterface.
func (a *API) ExportAuditRecords(c echo.Context, params api.ExportAuditRecordsParams) error {
	if a.recorder == nil {
		return errNoLog()
	}
	ctx := c.Request().Context()
	if err := a.recorder.flush(ctx); err != nil {
		return err
	}
	q := query(params)
	q.Ascending, q.Limit = true, exportPage
	if q.To.IsZero() {
		q.To = time.Now() // so that the export ends
	}
	page, err := a.log.ListAudit(ctx, q)
	if err != nil {
		return err
	}
	c.Response().Header().Set("Content-Disposition", `attachment; filename="drover-audit.jsonl"`)
	write, err := a.server.Stream(c, "application/x-ndjson")
	if err != nil {
		return err
	}
	for {
		lines, err := encode(page.Records)
		if err == nil {
			err = write(lines)
		}
		if err == nil && page.Next != "" {
			q.Cursor = page.Next
			page, err = a.log.ListAudit(ctx, q)
		} else if err == nil {
			return nil
		}
		if err != nil {
			a.server.Abort(c)
			return err
		}
	}
}

func encode(records []auditlog.Record) ([]byte, error) {
	var out []byte
	for _, r := range records {
		line, err := json.Marshal(view(r))
		if err != nil {
			return nil, err
		}
		out = append(append(out, line...), '\n')
	}
	return out, nil
}

func query(params api.ExportAuditRecordsParams) auditlog.Query {
	q := auditlog.Query{
		Subject: params.Subject, Action: params.Action, Group: params.Group, Result: auditlog.Result(params.Result), From: params.From, To: params.To,
	}
	q.Resource.Kind, q.Resource.ID, _ = strings.Cut(params.Resource, "/")
	return q
}

func view(r auditlog.Record) api.AuditRecord {
	v := api.AuditRecord{
		ID: r.ID, Time: r.Time.UTC(), Subject: r.Subject, Token: r.Token, Action: r.Action, Created: r.Created, Details: r.Details, Group: r.Group,
		Resource: api.AuditResource{Kind: r.Kind, ID: r.Resource.ID, Task: r.Task},
		Result:   api.AuditResult(r.Result), Status: r.Status, Code: string(r.Code), RequestID: r.RequestID, Remote: r.Remote, Count: r.Count,
	}
	if r.Count > 1 {
		v.Until = r.Until.UTC()
	}
	return v
}
