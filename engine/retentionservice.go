package engine

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// RetentionQuerier is the part of a Temporal client that a RetentionService
// uses.
type RetentionQuerier interface {
	QueryWorkflowWithOptions(ctx context.Context, request *client.QueryWorkflowWithOptionsRequest) (*client.QueryWorkflowWithOptionsResponse, error)
}

// RetentionService implements run.RetentionAPI. The settings and totals are
// those of the workflow; the data that is due is read from the records. It is
// safe for concurrent use.
type RetentionService struct {
	store    records.Due
	temporal RetentionQuerier
	now      func() time.Time
}

var _ run.RetentionAPI = (*RetentionService)(nil)

// NewRetentionService returns a RetentionService. It does no I/O. now is the
// clock; nil means time.Now.
func NewRetentionService(store records.Due, temporal RetentionQuerier, now func() time.Time) *RetentionService {
	if now == nil {
		now = time.Now
	}
	return &RetentionService{store: store, temporal: temporal, now: now}
}

// RetentionStatus implements run.RetentionAPI.
func (o *RetentionService) RetentionStatus(ctx context.Context) (run.RetentionStatus, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errors.New("temporal did not answer in time"))
	defer cancel()
	answer, err := o.temporal.QueryWorkflowWithOptions(ctx, &client.QueryWorkflowWithOptionsRequest{
		WorkflowID: contract.RetentionWorkflowID, QueryType: contract.QueryState, QueryRejectCondition: enums.QUERY_REJECT_CONDITION_NOT_OPEN,
	})
	if _, ok := errors.AsType[*serviceerror.NotFound](err); ok {
		return run.RetentionStatus{}, nil
	}
	if err != nil {
		return run.RetentionStatus{}, &run.Error{Code: run.CodeUnavailable, Message: "no control worker answered the query of the retention settings", Err: err}
	}
	if answer.QueryRejected != nil {
		return run.RetentionStatus{}, nil // the workflow has ended
	}
	out := run.RetentionStatus{Running: true}
	if err := answer.QueryResult.Get(&out); err != nil {
		return run.RetentionStatus{}, run.Errorf(run.CodeInternal, "decode retention status: %w", err)
	}
	return out, nil
}

// RetentionPreview implements run.RetentionAPI. It reads the kinds one
// after the other, so data that is removed meanwhile may or may not be
// included.
func (o *RetentionService) RetentionPreview(ctx context.Context, r run.Retention, n int) ([]run.RetentionDue, error) {
	ago := func(age run.Duration) time.Time {
		if age == 0 {
			return time.Time{}
		}
		return o.now().Add(-age.Std())
	}
	var out []run.RetentionDue
	for _, kind := range run.RetentionKinds() {
		due := run.RetentionDue{Kind: kind}
		var err error
		switch kind {
		case run.RetentionLogs:
			if r.Logs.MaxAge != 0 {
				due, err = o.store.DueLogs(ctx, ago(r.Logs.MaxAge), n)
			}
		case run.RetentionWorkspaces:
			due, err = o.store.DueArchives(ctx, run.ArchiveWorkspace, r.Archives, n)
		case run.RetentionArtifacts:
			due, err = o.store.DueArchives(ctx, run.ArchiveArtifact, r.Archives, n)
		case run.RetentionCaches:
			due, err = o.store.DueArchives(ctx, run.ArchiveCache, r.Archives, n)
		case run.RetentionRuns:
			if r.Runs != (run.RunsRetention{}) {
				due, err = o.store.DueRuns(ctx, run.DeleteQuery{Before: ago(r.Runs.MaxAge), Keep: r.Runs.Keep}, n)
			}
		case run.RetentionEvents:
			if r.Events != (run.EventRetention{}) {
				due, err = o.store.DueEvents(ctx, records.KeepEvents{Since: ago(r.Events.MaxAge), Newest: r.Events.Keep}, n)
			}
		}
		if err != nil {
			return nil, err
		}
		out = append(out, due)
	}
	return out, nil
}
