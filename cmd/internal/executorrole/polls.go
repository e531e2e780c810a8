package executorrole

import (
	"context"
	"strings"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"

	"github.com/drover-run/drover/contract"
)

// shortPoll is the timeout of a poll for tasks by an executor with labels. The poll holds
// a slot that a task of another queue may wait for. Temporal answers a second earlier,
// and warns about timeouts below 10 s.
const shortPoll = 11 * time.Second

// shortPolls returns an option for the connection to Temporal of an executor with
// labels: its polls for tasks end early.
func shortPolls() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		if poll, ok := req.(*workflowservice.PollActivityTaskQueueRequest); ok && taskQueue(poll.GetTaskQueue().GetName()) {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, shortPoll)
			defer cancel()
		}
		return invoke(ctx, method, req, reply, conn, opts...)
	})
}

// taskQueue reports whether a queue is one for the tasks of a pool.
func taskQueue(name string) bool {
	_, _, labelled := contract.ParseLabelsQueue(name)
	return labelled || strings.HasPrefix(name, contract.PoolQueue(""))
}
