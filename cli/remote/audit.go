package remote

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

// Audit returns a page of the audit log.
func (c *Client) Audit(ctx context.Context, params *api.ListAuditRecordsParams) (Answer[api.AuditPage], error) {
	return call[api.AuditPage](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.ListAuditRecords(ctx, params)
	})
}

// ExportAudit writes all records of the audit log that match, as lines of JSON. After an
// error, some may be missing.
func (c *Client) ExportAudit(ctx context.Context, params *api.ExportAuditRecordsParams, w io.Writer) error {
	resp, err := c.api.ExportAuditRecords(ctx, params)
	if err != nil {
		return c.unreachable(ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		return errors.Join(c.statusError(resp, body), err, resp.Body.Close())
	}
	if _, err = io.Copy(w, resp.Body); err != nil {
		err = &run.Error{Code: run.CodeUnavailable, Message: "the export was cut off: records may be missing", Err: err}
	}
	return errors.Join(err, resp.Body.Close())
}
