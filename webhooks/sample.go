package webhooks

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec/message"
)

// test sends a sample if a client requested one that was not answered, and writes
// the outcome. There is one attempt.
func (f *follower) test(ctx context.Context) error {
	n := f.w.Test.Requested
	if n <= f.w.Test.Done {
		return nil
	}
	failure := ""
	if err := f.sendSample(ctx, n); err != nil {
		failure = err.Error()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	switch err := f.d.store.EndWebhookTest(ctx, f.w.Name, f.w.Epoch, n, failure); run.CodeOf(err) {
	case run.CodeConflict, run.CodeNotFound:
		return errChanged // the next read finds the cause
	default:
		return err
	}
}

// sendSample sends a delivery without events, or the message of a test.
func (f *follower) sendSample(ctx context.Context, number int64) error {
	now := time.Now()
	id := fmt.Sprintf("%s.test-%d", f.w.Name, number)
	var b batch
	var err error
	if f.w.Format.Messages() {
		b, err = render(f.w, message.Test(f.w.Name, now), id, 0, now)
	} else {
		b.id = id
		b.body, err = encode(f.w.Name, nil)
	}
	if err != nil {
		return err
	}
	return f.d.send(ctx, f.client, f.w, b)
}
