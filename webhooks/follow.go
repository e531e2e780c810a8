package webhooks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/drover-run/drover/internal/retry"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// Causes that end the delivery of a webhook.
var (
	errChanged   = errors.New("the webhook was changed")
	errTakenOver = errors.New("another deliverer took the webhook over")
)

// If a webhook selects none of the events, the deliverer still saves its
// position at these intervals, so that the next deliverer does not read all
// events again.
const (
	idleSaveEvents = 1000
	idleSaveTime   = time.Minute
)

// Deliver delivers the events of a webhook until there is no receiver any more:
// the webhook was deleted or disabled, or another deliverer took it over. The
// returned reason is that cause. Deliver takes the webhook over from the
// previous deliverer. It returns an error if the records fail, or when ctx
// ends.
func (d *Deliverer) Deliver(ctx context.Context, name string) (reason string, err error) {
	changed, stop := d.store.WatchWebhook(name)
	defer stop()
	w, err := d.store.AcquireWebhook(ctx, name)
	for {
		if reason, err := d.endReason(w, err); reason != "" || err != nil {
			return reason, err
		}
		err = d.serve(ctx, changed, w)
		if !errors.Is(err, errChanged) {
			return "", err
		}
		w, err = d.store.ReadWebhook(ctx, name, w.Epoch)
	}
}

// endReason returns the reason to end the delivery, or "".
func (d *Deliverer) endReason(w records.Delivery, err error) (reason string, _ error) {
	switch code := run.CodeOf(err); {
	case code == run.CodeNotFound:
		return "the webhook was deleted", nil
	case code == run.CodeConflict:
		return errTakenOver.Error(), nil
	case err == nil && !w.Enabled:
		return "the webhook is disabled", nil
	}
	return "", err
}

// serve delivers a webhook with its current settings, until they are changed
// (errChanged).
func (d *Deliverer) serve(ctx context.Context, changed <-chan struct{}, w records.Delivery) error {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-changed:
			cancel(errChanged)
		case <-ctx.Done():
		}
	}()
	f := &follower{d: d, w: w, client: d.newClient(), position: w.Delivered, saved: time.Now()}
	f.logger = d.logger.With("webhook", w.Name)
	d.opts.Metrics.begun(w.Name, w.Failures)
	defer d.opts.Metrics.ended(w.Name)
	err := f.test(ctx)
	if err == nil {
		err = f.follow(ctx)
	}
	f.client.CloseIdleConnections()
	if context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	cancel(nil)
	<-done
	return err
}

// follower delivers a webhook while its settings are unchanged.
type follower struct {
	d      *Deliverer
	w      records.Delivery
	client *http.Client
	logger *slog.Logger

	position int64     // all events up to this number were read
	saved    time.Time // when the position was saved
	lastRead time.Time // when events were last read
}

func (f *follower) follow(ctx context.Context) error {
	changed, stop := f.d.store.Watch(f.w.Run)
	defer stop()
	if err := retry.Sleep(ctx, time.Until(f.w.NextAttemptAt)); err != nil {
		return err
	}
	for {
		events, more, err := f.readNext(ctx)
		if err != nil {
			return err
		}
		if len(events) > 0 {
			if err := f.deliverAll(ctx, events); err != nil {
				return err
			}
		} else if err := f.saveIdle(ctx); err != nil {
			return err
		}
		if more {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := retry.Sleep(ctx, f.d.opts.Pace-time.Since(f.lastRead)); err != nil {
			return err
		}
	}
}

// readNext returns the next events that the webhook selects, and advances its
// position past them. more reports that there may be others at once. Of a batch
// that failed it returns all events, and no others.
func (f *follower) readNext(ctx context.Context) (events []run.Event, more bool, err error) {
	f.lastRead = time.Now()
	for end := f.w.BatchEnd; ; {
		page, err := f.d.store.ReadEvents(ctx, run.EventQuery{After: f.position, Run: f.w.Run, Group: f.w.Group}, f.d.opts.Batch)
		if gone, ok := errors.AsType[*run.Error](err); ok && gone.Code == run.CodeGone {
			return nil, true, f.skip(ctx, gone.Floor)
		}
		if err != nil {
			return nil, false, err
		}
		f.position, more = page.Next, page.More
		for _, e := range page.Events {
			if end > 0 && e.Number > end {
				f.position, more = end, true
				break
			}
			if ok, err := f.selects(ctx, e); err != nil {
				return nil, false, err
			} else if ok {
				events = append(events, e)
			}
		}
		if f.position >= end || !more {
			f.w.BatchEnd = 0
			return events, more, nil
		}
	}
}

// skip continues after events that were removed before they were delivered, and
// records that in the webhook's last error.
func (f *follower) skip(ctx context.Context, floor int64) error {
	text := fmt.Sprintf("events %d to %d were removed before they were delivered", f.w.Delivered+1, floor)
	f.logger.WarnContext(ctx, "events were removed before they were delivered", "after", f.w.Delivered, "floor", floor)
	f.position, f.w.BatchEnd = floor, 0
	return f.savePosition(ctx, records.DeliveryProgress{Delivered: floor, LastError: text})
}

// deliverAll delivers events as one batch, or each as a message of its own.
func (f *follower) deliverAll(ctx context.Context, events []run.Event) error {
	if !f.w.Format.Messages() {
		b, err := newBatch(f.w.Name, events)
		if err != nil {
			return err
		}
		return f.deliver(ctx, events, b)
	}
	last := f.position
	for i, e := range events {
		b, err := f.d.newMessage(ctx, f.w, e)
		if err != nil {
			return err
		}
		f.position = e.Number
		if i == len(events)-1 {
			f.position = last
		}
		if err := f.deliver(ctx, events[i:i+1], b); err != nil {
			return err
		}
	}
	return nil
}

// deliver sends a batch of events until the receiver accepts it.
func (f *follower) deliver(ctx context.Context, events []run.Event, b batch) error {
	pauses := retry.DoublingAfter(f.d.opts.FirstRetry, f.d.opts.LastRetry, f.w.Failures)
	for {
		attempt := time.Now()
		err := f.d.send(ctx, f.client, f.w, b)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			f.w.Failures = 0
			f.d.opts.Metrics.accepted(f.w.Name, events, attempt)
			return f.savePosition(ctx, records.DeliveryProgress{Delivered: f.position, LastAttempt: attempt})
		}
		f.w.Failures++
		f.d.opts.Metrics.failed(f.w.Name, f.w.Failures, attempt)
		pause := pauses.NextBackOff()
		if refused, ok := errors.AsType[*deliveryError](err); ok {
			pause = max(pause, refused.after)
		}
		f.logger.DebugContext(ctx, "failed to deliver a batch", "delivery", b.id, "failures", f.w.Failures, "retry_in", pause, "error", err)
		next := time.Now().Add(pause)
		if err := f.savePosition(ctx, records.DeliveryProgress{
			Delivered: f.w.Delivered, BatchEnd: b.last, LastError: err.Error(), LastAttempt: attempt, NextAttempt: next, Failures: f.w.Failures,
		}); err != nil {
			return err
		}
		if err := retry.Sleep(ctx, time.Until(next)); err != nil {
			return err
		}
	}
}

// saveIdle saves the position if no event was selected for a while.
func (f *follower) saveIdle(ctx context.Context) error {
	if f.position == f.w.Delivered || f.position < f.w.Delivered+idleSaveEvents && time.Since(f.saved) < idleSaveTime {
		return nil
	}
	return f.savePosition(ctx, records.DeliveryProgress{Delivered: f.position})
}

// savePosition saves the webhook's position. It returns errChanged if a client has
// changed the webhook meanwhile.
func (f *follower) savePosition(ctx context.Context, to records.DeliveryProgress) error {
	err := f.d.store.AdvanceWebhook(ctx, f.w.Name, f.w.Epoch, f.w.Version, to)
	switch run.CodeOf(err) { //nolint:exhaustive // the others are failures
	case "":
		f.w.Delivered, f.saved = to.Delivered, time.Now()
	case run.CodeConflict, run.CodeNotFound:
		return errChanged // the next read finds the cause
	}
	return err
}
