package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/internal/mask"
)

// TestFramesOf_share: the last output is kept also if the share of a service is smaller than a
// frame.
func TestFramesOf_share(t *testing.T) {
	t.Parallel()
	var l executor.ServiceLog
	for range 1000 {
		l.Add(executor.LogPiece{Data: []byte("a line\n")}, 1<<20)
	}
	var text strings.Builder
	for _, f := range framesOf(l, mask.NewSet(nil), time.Time{}, 1000, 10) {
		text.Write(f.Data)
	}
	require.True(t, strings.HasSuffix(text.String(), "a line\n"))
	require.Contains(t, text.String(), "earlier output")
	require.Less(t, text.Len(), 1100)
}
