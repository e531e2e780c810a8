package harness

import (
	"net/http"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/testenv"
)

// PastHeartbeat is longer than the heartbeat timeout of a task, after which
// Temporal times out the activity.
const PastHeartbeat = 45 * time.Second

// HTTPClient returns a client whose calls end with the patience with the test.
func HTTPClient(t testing.TB) *http.Client {
	t.Helper()
	return &http.Client{Timeout: testenv.Patience(t)}
}
