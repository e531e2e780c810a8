package agent

import (
	"context"

	"github.com/drover-run/drover/run"
)

// claim is the claim of a key at the gateway.
type claim struct {
	t       *task
	proof   string        // proves that Temporal handed out the task; "" for an earlier process's
	adopted chan struct{} // of capacity 1: wakes run
}

// definition requests the claim, and with it the definition.
func (c *claim) definition(ctx context.Context) (run.Definition, error) {
	ctx, cancel := context.WithTimeout(ctx, c.t.a.opts.timing.claim)
	defer cancel()
	c.t.signal(eventClaimSent)
	retry := pauses(c.t.a.opts.timing.retryFirst, c.t.a.opts.timing.retryLimit)
	for {
		def, err := c.t.a.api.Claim(ctx, run.ClaimRequest{
			Key:         c.t.key,
			Executor:    c.t.a.identity.ID,
			Set:         c.t.a.set(),
			JournalID:   c.t.a.identity.JournalID,
			SpecVersion: run.NewestSpecVersion,
			ClaimProof:  c.proof,
		})
		if err == nil || codeOf(err) != run.CodeUnavailable {
			return def, err
		}
		if !retry.wait(ctx, nil) {
			return run.Definition{}, err
		}
	}
}

// run repeats the claim at the gateway after each adoption. The records may
// show the task as out of contact; a task without output would keep that state
// until its end.
func (c *claim) run(ctx context.Context) {
	for {
		select {
		case <-c.adopted:
		case <-ctx.Done():
			return
		}
		retry := pauses(c.t.a.opts.timing.retryFirst, c.t.a.opts.timing.retryLimit)
		for {
			callCtx, cancel := context.WithTimeout(ctx, c.t.a.opts.timing.call)
			_, err := c.t.a.api.Claim(callCtx, run.ClaimRequest{Key: c.t.key, Executor: c.t.a.identity.ID, Set: c.t.a.set(), JournalID: c.t.a.identity.JournalID})
			cancel()
			if err == nil {
				break
			}
			c.t.log.DebugContext(ctx, "failed to repeat the claim", "error", err)
			if code := codeOf(err); code != run.CodeUnavailable && code != run.CodeTimeout {
				break // the claim is not ours any more; the sweep handles that
			}
			if !retry.wait(ctx, nil) {
				return
			}
		}
	}
}
