package relay

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/drover-run/drover/internal/tokens"
)

const (
	// pollTimeout exceeds the little more than a minute that an executor's poll
	// waits.
	pollTimeout = 80 * time.Second
	callTimeout = 30 * time.Second
	// refusalLogInterval is the minimum interval between log messages about refused
	// calls, so that no client can fill the log.
	refusalLogInterval = time.Second
)

// admitted lists the calls that executors need. The relay refuses all others,
// also those that future Temporal versions add.
func admitted() []string {
	return []string{
		"DescribeNamespace", "GetSystemInfo", "PollActivityTaskQueue", "RecordActivityTaskHeartbeat", "RecordWorkerHeartbeat",
		"RespondActivityTaskCanceled", "RespondActivityTaskCompleted", "RespondActivityTaskFailed", "ShutdownWorker",
	}
}

// isPoll reports whether a call waits for a task.
func isPoll(call string) bool { return call == "PollActivityTaskQueue" }

// admission is the interceptor that authenticates callers, admits their calls and
// limits concurrent calls.
type admission struct {
	auth     tokens.Authenticator
	metrics  *metrics
	logger   *slog.Logger
	opts     Options
	admitted []string
	logLimit rate.Sometimes

	mu    sync.Mutex
	calls map[string]int // concurrent calls other than polls, by owner
	polls map[*poll]struct{}
	count map[string]int // polls by owner
	ended error          // why polls are refused; nil while they are admitted
}

// poll is an open poll.
type poll struct {
	caller caller
	cancel context.CancelCauseFunc
}

func newAdmission(auth tokens.Authenticator, metrics *metrics, logger *slog.Logger, opts Options) *admission {
	return &admission{
		auth: auth, metrics: metrics, logger: logger, opts: opts, admitted: admitted(),
		logLimit: rate.Sometimes{First: 1, Interval: refusalLogInterval}, calls: map[string]int{}, polls: map[*poll]struct{}{}, count: map[string]int{},
	}
}

// unary intercepts all unary calls.
func (d *admission) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (answer any, err error) {
	service, call := path.Split(info.FullMethod)
	if strings.Trim(service, "/") == healthpb.Health_ServiceDesc.ServiceName {
		return handler(ctx, req) // the answer reveals nothing, and load balancers have no token
	}
	begin := time.Now()
	defer func() {
		if r := recover(); r != nil {
			d.logger.ErrorContext(ctx, "a call panicked", "call", call, "panic", r, "stack", string(debug.Stack()))
			err = status.Error(codes.Internal, "the relay failed")
		}
		d.metrics.called(d.label(call), status.Code(err), time.Since(begin))
	}()
	c, err := d.admit(ctx, service, call)
	if err != nil {
		d.logRefusal(ctx, call, c, err)
		return nil, err
	}
	ctx, done, err := d.enter(withCaller(ctx, c), c, call)
	if err != nil {
		d.logRefusal(ctx, call, c, err)
		return nil, err
	}
	defer done()
	answer, err = handler(ctx, req)
	if status.Code(err) == codes.PermissionDenied {
		d.logRefusal(ctx, call, c, err)
	}
	return answer, err
}

// stream refuses all streaming calls, since executors need none.
func (d *admission) stream(_ any, s grpc.ServerStream, info *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
	return d.refuse(s.Context(), info.FullMethod)
}

// unknown refuses calls of unknown services.
func (d *admission) unknown(_ any, s grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(s)
	return d.refuse(s.Context(), method)
}

func (d *admission) refuse(ctx context.Context, method string) error {
	service, call := path.Split(method)
	c, err := d.admit(ctx, service, call)
	if err == nil {
		err = notAdmitted(call)
	}
	d.metrics.called(d.label(call), status.Code(err), 0)
	d.logRefusal(ctx, call, c, err)
	return err
}

// admit returns the caller of a call, or the error that refuses it.
func (d *admission) admit(ctx context.Context, service, call string) (caller, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	headers := md.Get("authorization")
	p, err := tokens.Check(d.auth, headers)
	if err != nil {
		return caller{}, status.Error(codes.Unauthenticated, err.Error())
	}
	c := caller{name: p.Name, binding: p.Binding, headers: headers}
	switch {
	case !p.Allows(tokens.Executor):
		return c, status.Errorf(codes.PermissionDenied, "token %s does not have the scope %s", p.Name, tokens.Executor)
	case c.binding.Executor == "" || c.binding.Pool == "":
		return c, status.Errorf(codes.PermissionDenied,
			"token %s is not bound to an executor and a pool; a relay admits no other token (drover tokens create --executor --pool)", p.Name)
	case strings.Trim(service, "/") != workflowservice.WorkflowService_ServiceDesc.ServiceName || !slices.Contains(d.admitted, call):
		return c, notAdmitted(call)
	}
	return c, nil
}

func notAdmitted(call string) error {
	return status.Errorf(codes.PermissionDenied, "the relay does not admit %s: an executor may poll its own queues, "+
		"and heartbeat and answer the tasks that were handed to it", call)
}

// enter counts a call and bounds its time. The returned function ends it.
func (d *admission) enter(ctx context.Context, c caller, call string) (context.Context, func(), error) {
	if isPoll(call) {
		return d.enterPoll(ctx, c)
	}
	if !d.acquire(d.calls, c, d.opts.MaxCalls) {
		return ctx, nil, status.Errorf(codes.ResourceExhausted, "token %s has %d concurrent calls", c.name, d.opts.MaxCalls)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, fmt.Errorf("temporal did not answer within %s", callTimeout))
	return ctx, func() {
		cancel()
		d.release(d.calls, c)
	}, nil
}

func (d *admission) enterPoll(ctx context.Context, c caller) (context.Context, func(), error) {
	if !d.acquire(d.count, c, d.opts.MaxPolls) {
		return ctx, nil, status.Errorf(codes.ResourceExhausted, "token %s has %d open polls", c.name, d.opts.MaxPolls)
	}
	ctx, stopTimer := context.WithTimeoutCause(ctx, pollTimeout, fmt.Errorf("the poll took longer than %s", pollTimeout))
	ctx, cancel := context.WithCancelCause(ctx)
	p := &poll{caller: c, cancel: cancel}
	d.mu.Lock()
	d.polls[p] = struct{}{}
	ended := d.ended
	d.mu.Unlock()
	if ended != nil {
		cancel(ended)
	}
	d.metrics.openPolls.Inc()
	return ctx, func() {
		cancel(context.Canceled)
		stopTimer()
		d.metrics.openPolls.Dec()
		d.mu.Lock()
		delete(d.polls, p)
		d.mu.Unlock()
		d.release(d.count, c)
	}, nil
}

// acquire counts one more call of the caller, unless that exceeds the limit.
func (d *admission) acquire(of map[string]int, c caller, limit int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if of[c.owner()] >= limit {
		return false
	}
	of[c.owner()]++
	return true
}

func (d *admission) release(of map[string]int, c caller) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if of[c.owner()]--; of[c.owner()] == 0 {
		delete(of, c.owner())
	}
}

// watch ends the polls of revoked or changed tokens until ctx ends, so that
// such a token gets no further task.
func (d *admission) watch(ctx context.Context) {
	ticker := time.NewTicker(d.opts.Recheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			d.recheck()
		}
	}
}

func (d *admission) recheck() {
	d.mu.Lock()
	waiting := make([]*poll, 0, len(d.polls))
	for p := range d.polls {
		waiting = append(waiting, p)
	}
	d.mu.Unlock()
	good := map[string]bool{} // by header, which many polls share
	for _, p := range waiting {
		header := p.caller.headers[0]
		known, asked := good[header]
		if !asked {
			now, err := tokens.Check(d.auth, p.caller.headers)
			known = err == nil && now.Allows(tokens.Executor) && now.Binding == p.caller.binding
			good[header] = known
		}
		if !known {
			p.cancel(errRevoked)
		}
	}
}

// endPolls ends all open polls and refuses further ones.
func (d *admission) endPolls(cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = cause
	for p := range d.polls {
		p.cancel(cause)
	}
}

func (d *admission) logRefusal(ctx context.Context, call string, c caller, err error) {
	d.logLimit.Do(func() {
		d.logger.WarnContext(ctx, "call refused", "call", call, "token", c.name, "error", status.Convert(err).Message())
	})
}

// label returns the metrics label of a call. Clients must not be able to create
// labels, so every unknown call is "other".
func (d *admission) label(call string) string {
	if slices.Contains(d.admitted, call) {
		return call
	}
	return "other"
}
