package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/drover-run/drover/activities/errcode"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/webhooks"
)

// EventDeliverer delivers the events of a webhook until no delivery is due, and
// returns the reason.
type EventDeliverer interface {
	Deliver(ctx context.Context, name string) (why string, err error)
}

var _ EventDeliverer = (*webhooks.Deliverer)(nil)

// Webhooks holds the activity of webhooks.
type Webhooks struct{ deliverer EventDeliverer }

// NewWebhooks returns the activity over a deliverer.
func NewWebhooks(deliverer EventDeliverer) *Webhooks { return &Webhooks{deliverer: deliverer} }

// Deliver is contract.ActivityDeliver.
func (a *Webhooks) Deliver(ctx context.Context, in contract.DeliverInput) (contract.DeliverResult, error) {
	ctx, end := startHeartbeats(ctx)
	defer end()
	why, err := a.deliverer.Deliver(ctx, in.Name)
	if errors.Is(context.Cause(ctx), errWorkerStops) {
		return contract.DeliverResult{WorkerStopping: true}, nil
	}
	return contract.DeliverResult{Reason: why}, errcode.ToTemporal(err)
}

// errWorkerStops is the cause of the end of an activity whose worker stops.
// Another worker continues the activity immediately.
var errWorkerStops = errors.New("the worker stops")

// heartbeatEvery is far below any heartbeat timeout. The SDK throttles
// heartbeats further.
const heartbeatEvery = 2 * time.Second

// startHeartbeats sends heartbeats for a long activity, until end is called. The returned
// context also ends when the worker stops.
func startHeartbeats(whole context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(whole)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(heartbeatEvery)
		defer ticker.Stop()
		for {
			activity.RecordHeartbeat(whole)
			select {
			case <-ticker.C:
			case <-activity.GetWorkerStopChannel(whole):
				cancel(errWorkerStops)
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}
