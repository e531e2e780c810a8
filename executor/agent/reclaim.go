package agent

import (
	"context"

	"github.com/drover-run/drover/run"
)

// reclaim repeats the claim at the gateway after each adoption. The records may
// show the task as out of contact; a task without output would keep that state
// until its end.
func (t *task) reclaim(ctx context.Context) {
	for {
		select {
		case <-t.adopted:
		case <-ctx.Done():
			return
		}
		retry := pauses(t.a.opts.timing.retryFirst, t.a.opts.timing.retryLimit)
		for {
			callCtx, cancel := context.WithTimeout(ctx, t.a.opts.timing.call)
			_, err := t.a.api.Claim(callCtx, run.ClaimRequest{Key: t.key, Executor: t.a.identity.ID, Set: t.a.set(), JournalID: t.a.identity.JournalID})
			cancel()
			if err == nil {
				break
			}
			t.log.DebugContext(ctx, "failed to repeat the claim", "error", err)
			if code := codeOf(err); code != run.CodeUnavailable && code != run.CodeTimeout {
				break // the claim is not ours any more; the sweep handles that
			}
			if !retry.wait(ctx, nil) {
				return
			}
		}
	}
}
