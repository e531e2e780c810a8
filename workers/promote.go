package workers

import (
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/drover-run/drover/internal/retry"
)

// The first and the longest pause between two attempts to promote a build.
const (
	promoteFirst = 200 * time.Millisecond
	promoteLimit = 15 * time.Second
)

// Promote makes a build the current one of its deployment: new workflows start
// with it, and running ones continue with it from their next task. Builds
// before it should run until Temporal reports them drained. Promote retries
// until it succeeds, which takes a poll of the build, or until ctx ends.
func Promote(ctx context.Context, c client.Client, v worker.WorkerDeploymentVersion, log *slog.Logger) {
	log = log.With("deployment", v.DeploymentName, "build_id", v.BuildID)
	handle := c.WorkerDeploymentClient().GetHandle(v.DeploymentName)
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		_, err := handle.SetCurrentVersion(ctx, client.WorkerDeploymentSetCurrentVersionOptions{BuildID: v.BuildID})
		return struct{}{}, err
	}, backoff.WithBackOff(retry.Doubling(promoteFirst, promoteLimit)), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, _ time.Duration) {
		log.DebugContext(ctx, "the build is not current yet", "error", err)
	}))
	if err == nil {
		log.InfoContext(ctx, "promoted build to the current version of its deployment")
	}
}
