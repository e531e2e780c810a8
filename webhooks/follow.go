package webhooks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// The causes of the end of what is being done for a webhook.
var (
	errChanged = errors.New("the webhook was changed")
	errTaken   = errors.New("another delivers the webhook")
)

// Where a webhook selects nothing of what happens, its place is written down
// this often all the same, so that nobody looks through it all again.
const (
	idleSaveEvents = 1000
	idleSaveTime   = time.Minute
)

// Deliver delivers the events of a webhook until there is nothing to deliver
// to: it was deleted or disabled, or another delivers it; why says which. It
// takes the webhook over from whoever delivered it. It fails where the records
// do, and when ctx ends.
func (d *Deliverer) Deliver(ctx context.Context, name string) (why string, err error) {
	changed, stop := d.store.WatchWebhook(name)
	defer stop()
	w, err := d.store.TakeWebhook(ctx, name)
	for {
		if why, err := d.over(w, err); why != "" || err != nil {
			return why, err
		}
		err = d.serve(ctx, changed, w)
		if !errors.Is(err, errChanged) {
			return "", err
		}
		w, err = d.store.ReadWebhook(ctx, name, w.Epoch)
	}
}

// over says why there is nothing to deliver to.
func (d *Deliverer) over(w records.Delivery, err error) (why string, _ error) {
	switch code := run.CodeOf(err); {
	case code == run.CodeNotFound:
		return "the webhook was deleted", nil
	case code == run.CodeConflict:
		return errTaken.Error(), nil
	case err == nil && !w.Enabled:
		return "the webhook is disabled", nil
	}
	return "", err
}

// serve delivers for a webhook as it is now, until it is changed (errChanged).
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
	f := &follower{d: d, w: w, client: newClient(), place: w.Delivered, saved: time.Now()}
	f.logger = d.logger.With("webhook", w.Name)
	d.opts.Metrics.begun(w.Name, w.Failures)
	defer d.opts.Metrics.ended(w.Name)
	err := f.follow(ctx)
	f.client.CloseIdleConnections()
	if context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	cancel(nil)
	<-done
	return err
}

// follower delivers for a webhook while it stays as it is.
type follower struct {
	d      *Deliverer
	w      records.Delivery
	client *http.Client
	logger *slog.Logger

	place  int64     // up to here all was looked at
	saved  time.Time // when the place was written down
	looked time.Time // for events
}

func (f *follower) follow(ctx context.Context) error {
	news, stop := f.d.store.Watch(f.w.Run)
	defer stop()
	if err := sleep(ctx, time.Until(f.w.NextAttemptAt)); err != nil {
		return err
	}
	for {
		events, more, err := f.look(ctx)
		if err != nil {
			return err
		}
		if len(events) > 0 {
			if err := f.deliver(ctx, events); err != nil {
				return err
			}
		} else if err := f.saveIdle(ctx); err != nil {
			return err
		}
		if more {
			continue
		}
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := sleep(ctx, f.d.opts.Pace-time.Since(f.looked)); err != nil {
			return err
		}
	}
}

// look returns the next events that the webhook selects, and moves its place
// behind them. more says that there may be others at once.
func (f *follower) look(ctx context.Context) (events []run.Event, more bool, err error) {
	f.looked = time.Now()
	// Asked first: whatever is read after it holds all events up to it.
	last, err := f.d.store.LastEvent(ctx)
	if err != nil || last <= f.place {
		return nil, false, err
	}
	page, err := f.d.store.ReadEvents(ctx, run.EventQuery{After: f.place, Run: f.w.Run, Group: f.w.Group}, f.d.opts.Batch)
	if gone, ok := errors.AsType[*run.Error](err); ok && gone.Code == run.CodeGone {
		return nil, true, f.skip(ctx, gone.Floor)
	}
	if err != nil {
		return nil, false, err
	}
	more = len(page) == f.d.opts.Batch
	if n := len(page); n > 0 {
		f.place = page[n-1].Number
	}
	if !more {
		f.place = max(f.place, last)
	}
	for _, e := range page {
		if f.w.BatchEnd > 0 && e.Number > f.w.BatchEnd {
			// A batch that failed is tried again as it was.
			f.place, more = f.w.BatchEnd, true
			break
		}
		if f.selects(e) {
			events = append(events, e)
		}
	}
	f.w.BatchEnd = 0
	return events, more, nil
}

// skip goes on behind events that were removed before they were delivered, and
// tells so.
func (f *follower) skip(ctx context.Context, floor int64) error {
	text := fmt.Sprintf("events %d to %d were removed before they were delivered", f.w.Delivered+1, floor)
	f.logger.WarnContext(ctx, "events were removed before they were delivered", "after", f.w.Delivered, "floor", floor)
	f.place, f.w.BatchEnd = floor, 0
	return f.move(ctx, records.Progression{Delivered: floor, LastError: text})
}

func (f *follower) selects(e run.Event) bool {
	return slices.Contains(f.w.Events, e.Type)
}

// deliver sends events until they are taken.
func (f *follower) deliver(ctx context.Context, events []run.Event) error {
	b, err := newBatch(f.w.Name, events)
	if err != nil {
		return err
	}
	pauses := f.pauses()
	for {
		attempt := time.Now()
		err := f.d.send(ctx, f.client, f.w, b)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			f.w.Failures = 0
			f.d.opts.Metrics.taken(f.w.Name, events, attempt)
			return f.move(ctx, records.Progression{Delivered: f.place, LastAttempt: attempt})
		}
		f.w.Failures++
		f.d.opts.Metrics.failed(f.w.Name, f.w.Failures, attempt)
		pause := pauses.NextBackOff()
		if refused, ok := errors.AsType[*notTakenError](err); ok {
			pause = max(pause, refused.after)
		}
		f.logger.DebugContext(ctx, "a delivery failed", "delivery", b.id, "failures", f.w.Failures, "retry_in", pause, "error", err)
		next := time.Now().Add(pause)
		if err := f.move(ctx, records.Progression{
			Delivered: f.w.Delivered, BatchEnd: b.last, LastError: err.Error(), LastAttempt: attempt, NextAttempt: next, Failures: f.w.Failures,
		}); err != nil {
			return err
		}
		if err := sleep(ctx, time.Until(next)); err != nil {
			return err
		}
	}
}

// pauses returns the pauses that follow after the failures so far.
func (f *follower) pauses() *backoff.ExponentialBackOff {
	b := &backoff.ExponentialBackOff{
		InitialInterval: f.d.opts.FirstRetry, Multiplier: 2, RandomizationFactor: 0.2, MaxInterval: f.d.opts.LastRetry,
	}
	b.Reset()
	for range min(f.w.Failures, 32) { // by then the longest is reached
		b.NextBackOff()
	}
	return b
}

// saveIdle writes the place down where nothing was selected for a while.
func (f *follower) saveIdle(ctx context.Context) error {
	if f.place == f.w.Delivered || f.place < f.w.Delivered+idleSaveEvents && time.Since(f.saved) < idleSaveTime {
		return nil
	}
	return f.move(ctx, records.Progression{Delivered: f.place})
}

// move writes down how far the webhook has come. That a client has changed it
// meanwhile is told as errChanged.
func (f *follower) move(ctx context.Context, to records.Progression) error {
	err := f.d.store.MoveWebhook(ctx, f.w.Name, f.w.Epoch, f.w.Version, to)
	switch run.CodeOf(err) { //nolint:exhaustive // the others are failures
	case "":
		f.w.Delivered, f.saved = to.Delivered, time.Now()
	case run.CodeConflict, run.CodeNotFound:
		return errChanged // to look again tells what happened
	}
	return err
}

// sleep waits, and fails when ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
