// Package runtest has fakes of the interfaces of package run, for tests of
// their callers. Each method calls the field of the same name with Func
// appended. A method whose field is nil fails with CodeNotSupported.
package runtest

import (
	"context"
	"io"
	"iter"
	"sync"

	"github.com/drover-run/drover/run"
)

func unset(name string) error { return run.Errorf(run.CodeNotSupported, "%s was not expected", name) }

// Service is a run.Service made of functions.
type Service struct {
	CreateFunc         func(context.Context, run.CreateRequest) (run.Run, error)
	GetFunc            func(ctx context.Context, id run.ID, tokenFor ...string) (run.Run, error)
	GroupOfFunc        func(context.Context, run.ID) (string, error)
	ListFunc           func(context.Context, run.ListQuery) (run.Page, error)
	StartFunc          func(context.Context, run.ID, run.Token) (run.Run, error)
	CancelFunc         func(context.Context, run.ID, run.Token) (run.Run, error)
	StopFunc           func(context.Context, run.ID, run.StopOptions, run.Token) (run.Run, error)
	ApproveFunc        func(ctx context.Context, id run.ID, task, subject string, token run.Token) (run.Run, error)
	RejectFunc         func(ctx context.Context, id run.ID, task, subject, reason string, token run.Token) (run.Run, error)
	ApprovalsFunc      func(context.Context, run.ApprovalQuery) (run.ApprovalPage, error)
	SpecFunc           func(context.Context, run.ID) (*run.Spec, error)
	AnnotateFunc       func(ctx context.Context, id run.ID, task string, annotations map[string]string, token run.Token) (run.Run, error)
	RestartFunc        func(context.Context, run.RestartRequest) (run.Run, error)
	PlanRestartFunc    func(context.Context, run.RestartRequest) ([]run.RestartTask, error)
	DeleteFunc         func(context.Context, run.ID) error
	DeleteRunsFunc     func(context.Context, run.DeleteQuery) (run.Deleted, error)
	ChangeGroupsFunc   func(context.Context, run.ChangeGroupQuery) ([]run.ChangeGroup, run.Token, error)
	PutChangeGroupFunc func(context.Context, run.ChangeGroup, run.Token) (run.ChangeGroup, run.Token, error)
	GroupsFunc         func(context.Context, run.GroupQuery) (run.GroupPage, error)
	LogsFunc           func(context.Context, run.LogQuery) (run.LogReader, error)
	EventFloorFunc     func(context.Context, run.ID) (int64, error) // nil: there is none
	EventsFunc         func(context.Context, run.EventQuery) iter.Seq2[run.Event, error]
	ExecutorsFunc      func(context.Context) ([]run.Executor, error)
	ExecutorFunc       func(ctx context.Context, id string) (run.Executor, error)
	DrainExecutorFunc  func(ctx context.Context, id, reason string) (run.Executor, error)
	ResumeExecutorFunc func(ctx context.Context, id string) (run.Executor, error)
	RemoveExecutorFunc func(ctx context.Context, id string, removal run.Removal) (run.Executor, error)
	PoolsFunc          func(context.Context) ([]run.Pool, error)
	PoolFunc           func(ctx context.Context, name string) (run.Pool, error)
	PutPoolFunc        func(context.Context, run.Pool) (run.Pool, bool, error)
	DeletePoolFunc     func(ctx context.Context, name string) error
	ReadyFunc          func(context.Context) error
}

var _ run.Service = (*Service)(nil)

// Create implements run.Service.
func (s *Service) Create(ctx context.Context, req run.CreateRequest) (run.Run, error) {
	if s.CreateFunc == nil {
		return run.Run{}, unset("Create")
	}
	return s.CreateFunc(ctx, req)
}

// Get implements run.Service.
func (s *Service) Get(ctx context.Context, id run.ID, tokenFor ...string) (run.Run, error) {
	if s.GetFunc == nil {
		return run.Run{}, unset("Get")
	}
	return s.GetFunc(ctx, id, tokenFor...)
}

// GroupOf implements run.Service.
func (s *Service) GroupOf(ctx context.Context, id run.ID) (string, error) {
	if s.GroupOfFunc == nil {
		return "", unset("GroupOf")
	}
	return s.GroupOfFunc(ctx, id)
}

// List implements run.Service.
func (s *Service) List(ctx context.Context, q run.ListQuery) (run.Page, error) {
	if s.ListFunc == nil {
		return run.Page{}, unset("List")
	}
	return s.ListFunc(ctx, q)
}

// Start implements run.Service.
func (s *Service) Start(ctx context.Context, id run.ID, token run.Token) (run.Run, error) {
	return act(ctx, "Start", s.StartFunc, id, token)
}

// Cancel implements run.Service.
func (s *Service) Cancel(ctx context.Context, id run.ID, token run.Token) (run.Run, error) {
	return act(ctx, "Cancel", s.CancelFunc, id, token)
}

// Stop implements run.Service.
func (s *Service) Stop(ctx context.Context, id run.ID, opts run.StopOptions, token run.Token) (run.Run, error) {
	if s.StopFunc == nil {
		return run.Run{}, unset("Stop")
	}
	return s.StopFunc(ctx, id, opts, token)
}

func act(
	ctx context.Context, name string, f func(context.Context, run.ID, run.Token) (run.Run, error), id run.ID, token run.Token,
) (run.Run, error) {
	if f == nil {
		return run.Run{}, unset(name)
	}
	return f(ctx, id, token)
}

// Approve implements run.Service.
func (s *Service) Approve(ctx context.Context, id run.ID, task, subject string, token run.Token) (run.Run, error) {
	if s.ApproveFunc == nil {
		return run.Run{}, unset("Approve")
	}
	return s.ApproveFunc(ctx, id, task, subject, token)
}

// Reject implements run.Service.
func (s *Service) Reject(ctx context.Context, id run.ID, task, subject, reason string, token run.Token) (run.Run, error) {
	if s.RejectFunc == nil {
		return run.Run{}, unset("Reject")
	}
	return s.RejectFunc(ctx, id, task, subject, reason, token)
}

// Approvals implements run.Service.
func (s *Service) Approvals(ctx context.Context, q run.ApprovalQuery) (run.ApprovalPage, error) {
	if s.ApprovalsFunc == nil {
		return run.ApprovalPage{}, unset("Approvals")
	}
	return s.ApprovalsFunc(ctx, q)
}

// Spec implements run.Service.
func (s *Service) Spec(ctx context.Context, id run.ID) (*run.Spec, error) {
	if s.SpecFunc == nil {
		return nil, unset("Spec")
	}
	return s.SpecFunc(ctx, id)
}

// Annotate implements run.Service.
func (s *Service) Annotate(ctx context.Context, id run.ID, task string, annotations map[string]string, token run.Token) (run.Run, error) {
	if s.AnnotateFunc == nil {
		return run.Run{}, unset("Annotate")
	}
	return s.AnnotateFunc(ctx, id, task, annotations, token)
}

// Restart implements run.Service.
func (s *Service) Restart(ctx context.Context, req run.RestartRequest) (run.Run, error) {
	if s.RestartFunc == nil {
		return run.Run{}, unset("Restart")
	}
	return s.RestartFunc(ctx, req)
}

// PlanRestart implements run.Service.
func (s *Service) PlanRestart(ctx context.Context, req run.RestartRequest) ([]run.RestartTask, error) {
	if s.PlanRestartFunc == nil {
		return nil, unset("PlanRestart")
	}
	return s.PlanRestartFunc(ctx, req)
}

// Delete implements run.Service.
func (s *Service) Delete(ctx context.Context, id run.ID) error {
	if s.DeleteFunc == nil {
		return unset("Delete")
	}
	return s.DeleteFunc(ctx, id)
}

// DeleteRuns implements run.Service.
func (s *Service) DeleteRuns(ctx context.Context, q run.DeleteQuery) (run.Deleted, error) {
	if s.DeleteRunsFunc == nil {
		return run.Deleted{}, unset("DeleteRuns")
	}
	return s.DeleteRunsFunc(ctx, q)
}

// ChangeGroups implements run.Service.
func (s *Service) ChangeGroups(ctx context.Context, q run.ChangeGroupQuery) ([]run.ChangeGroup, run.Token, error) {
	if s.ChangeGroupsFunc == nil {
		return nil, nil, unset("ChangeGroups")
	}
	return s.ChangeGroupsFunc(ctx, q)
}

// PutChangeGroup implements run.Service.
func (s *Service) PutChangeGroup(ctx context.Context, g run.ChangeGroup, token run.Token) (run.ChangeGroup, run.Token, error) {
	if s.PutChangeGroupFunc == nil {
		return run.ChangeGroup{}, nil, unset("PutChangeGroup")
	}
	return s.PutChangeGroupFunc(ctx, g, token)
}

// Groups implements run.Service.
func (s *Service) Groups(ctx context.Context, q run.GroupQuery) (run.GroupPage, error) {
	if s.GroupsFunc == nil {
		return run.GroupPage{}, unset("Groups")
	}
	return s.GroupsFunc(ctx, q)
}

// Logs implements run.Service.
func (s *Service) Logs(ctx context.Context, q run.LogQuery) (run.LogReader, error) {
	if s.LogsFunc == nil {
		return nil, unset("Logs")
	}
	return s.LogsFunc(ctx, q)
}

// EventBounds implements run.Service.
func (s *Service) EventBounds(ctx context.Context, id run.ID) (floor, last int64, err error) {
	if s.EventFloorFunc != nil {
		floor, err = s.EventFloorFunc(ctx, id)
	}
	return floor, floor, err
}

// Events implements run.Service.
func (s *Service) Events(ctx context.Context, q run.EventQuery) iter.Seq2[run.Event, error] {
	if s.EventsFunc == nil {
		return func(yield func(run.Event, error) bool) { yield(run.Event{}, unset("Events")) }
	}
	return s.EventsFunc(ctx, q)
}

// Ready implements run.Service; without a function it returns nil.
func (s *Service) Ready(ctx context.Context) error {
	if s.ReadyFunc == nil {
		return nil
	}
	return s.ReadyFunc(ctx)
}

// Log is a run.LogReader of the chunks that are sent to it.
type Log struct {
	// Begin is the offset at which the log begins.
	Begin int64
	// With has the services with output.
	With   []string
	chunks chan run.LogChunk
	err    error
	close  sync.Once
	closed chan struct{}
}

var _ run.LogReader = (*Log)(nil)

// NewLog returns an empty, open log.
func NewLog() *Log {
	return &Log{chunks: make(chan run.LogChunk, 100), closed: make(chan struct{})}
}

// Send appends a chunk.
func (l *Log) Send(c run.LogChunk) { l.chunks <- c }

// End ends the log; Next then returns err, or io.EOF if err is nil.
func (l *Log) End(err error) {
	l.err = err
	close(l.chunks)
}

// Offset implements run.LogReader.
func (l *Log) Offset() int64 { return l.Begin }

// Services implements run.LogReader.
func (l *Log) Services() []string { return l.With }

// Next implements run.LogReader.
func (l *Log) Next(ctx context.Context) (run.LogChunk, error) {
	select {
	case c, ok := <-l.chunks:
		switch {
		case ok:
			return c, nil
		case l.err != nil:
			return run.LogChunk{}, l.err
		}
		return run.LogChunk{}, io.EOF
	case <-ctx.Done():
		return run.LogChunk{}, context.Cause(ctx)
	}
}

// Close implements io.Closer.
func (l *Log) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}

// Closed is closed by Close.
func (l *Log) Closed() <-chan struct{} { return l.closed }
