package workflows

import (
	"fmt"
	"strings"
	"time"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/internal/truncate"
)

// summary returns what Temporal's web UI shows for a task.
func summary(name string, attempt int) string {
	if attempt > 1 {
		return shorten(fmt.Sprintf("%s (attempt %d)", name, attempt))
	}
	return shorten(name)
}

// batchSummary returns the summary of a batch.
func batchSummary(in contract.BatchInput) string {
	return shorten(fmt.Sprintf("batch %d of %s", in.Batch, in.Name))
}

func shorten(s string) string {
	return truncate.String(s, maxSummary, "...")
}

// formatDuration formats a duration without units that are zero: 2h, 1m30s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// formatTime formats a time for reasons. It computes the digits itself: time's own
// formats read the machine's time zones.
func formatTime(t time.Time) string {
	second := t.Unix() % (24 * 60 * 60)
	return fmt.Sprintf("%02d:%02d:%02dZ", second/3600, second/60%60, second%60)
}
