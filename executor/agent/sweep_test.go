package agent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// TestAgent_forgets_a_key_closed_after_its_claim grants a claim without an answer that
// arrives. The records close the claim, and a sweep finds that, before the delivery or an
// adoption closes the key. Its journal entry must not stay.
func TestAgent_forgets_a_key_closed_after_its_claim(t *testing.T) {
	t.Parallel()
	key := run.Key{Run: testRun, Attempt: 1, Dispatch: 1}
	cases := map[string]time.Duration{ // how long the delivery takes after the claim
		"by_the_delivery": 12 * time.Second,
		"by_an_adoption":  time.Minute,
	}
	for name, takes := range cases {
		t.Run(name, func(t *testing.T) {
			withTestEnv(t, func(t *testing.T, w *testEnv) {
				h := w.newHost(1)
				claim := once("claimed", func(p *process) {
					id := p.agent.ID()
					_, err := w.api.Claim(t.Context(), run.ClaimRequest{Key: key, Executor: id, JournalID: w.api.journalOf(id)})
					require.NoError(w.t, err)
					w.api.setDown(true)
				})
				closeClaim := once("granted", func(*process) {
					w.api.closeClaim(key)
					w.api.setDown(false)
					w.sleep(takes)
				})
				p := h.start(func(p *process, point string, k run.Key) {
					claim(p, point, k)
					closeClaim(p, point, k)
				})
				w.sleep(20 * time.Second) // the first sweep is due soon after the claim
				w.submit(0)
				w.awaitEnd(10*time.Minute, 0)
				w.requireOnce()
				require.Equal(t, run.StatusSuccess, w.outcome(0).Status)
				require.Equal(t, 2, w.api.lastClaim(0).Dispatch, "the key was queued again")
				w.requireClean(h, p)
				w.requireLog(0)
			})
		})
	}
}
