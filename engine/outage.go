package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// outageInterval is how long the result of a check of Temporal is used.
	outageInterval = 5 * time.Second
	// outageTimeout bounds one check. A check that Temporal does not answer in
	// time is repeated once, so that a short delay is no outage.
	outageTimeout = time.Second
)

// outage tells since when Temporal does not answer. It checks only when a reader
// asks, at most once in outageInterval for all readers together.
type outage struct {
	check  func(ctx context.Context) error // nil: it is never checked
	logger *slog.Logger
	now    func() time.Time

	mu        sync.Mutex
	checking  bool
	checkedAt time.Time
	away      time.Time // zero: it answered the last check
}

func newOutage(check func(ctx context.Context) error, logger *slog.Logger) *outage {
	return &outage{check: check, logger: logger, now: time.Now}
}

// since returns since when Temporal does not answer, or the zero time if it does.
func (o *outage) since(ctx context.Context) time.Time {
	if o.check == nil {
		return time.Time{}
	}
	o.mu.Lock()
	if o.checking || o.now().Sub(o.checkedAt) < outageInterval {
		defer o.mu.Unlock()
		return o.away
	}
	o.checking = true
	begin := o.now()
	o.mu.Unlock()

	err := o.ask(ctx)

	o.mu.Lock()
	defer o.mu.Unlock()
	o.checking = false
	if ctx.Err() != nil { // the reader has left: the result says nothing
		return o.away
	}
	o.checkedAt = o.now()
	switch {
	case err == nil:
		o.away = time.Time{}
	case o.away.IsZero():
		o.away = begin
		o.logger.WarnContext(ctx, "temporal does not answer", "error", err)
	}
	return o.away
}

func (o *outage) ask(ctx context.Context) error {
	try := func() (error, bool) {
		limited, cancel := context.WithTimeout(ctx, outageTimeout)
		defer cancel()
		err := o.check(limited)
		return err, limited.Err() != nil && ctx.Err() == nil
	}
	err, late := try()
	if err != nil && late {
		err, _ = try()
	}
	return err
}

// outageText says since when Temporal does not answer.
func outageText(since time.Time) string {
	return "Temporal is out of reach since " + since.UTC().Format(time.TimeOnly) + " UTC"
}
