package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/engine"
	"github.com/drover-run/drover/engine/archives"
	"github.com/drover-run/drover/run"
)

// A claim returns the output limit that the gateway is configured with, and not
// the one at the run's submission.
func TestEngine_claim_returns_the_log_limit(t *testing.T) {
	t.Parallel()
	d := newArchiveBench(t, archives.Options{})
	first, _ := d.begin(t, "/a/b", false)
	for _, limit := range []int64{0, 7 << 20} {
		deps := d.deps
		deps.LogLimit = limit
		got, err := engine.New(deps).Claim(t.Context(), run.ClaimRequest{Key: first, Executor: executorID, JournalID: "j1"})
		require.NoError(t, err)
		require.Equal(t, first, got.Key)
		require.Equal(t, limit, got.LogLimit)
		require.True(t, got.ServiceLogs)
	}
}
