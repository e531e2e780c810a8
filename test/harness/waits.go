package harness

import (
	"net/http"
	"time"

	"github.com/drover-run/drover/internal/testenv"
)

// PastHeartbeat is longer than the heartbeat timeout of a task, after which
// Temporal times out the activity.
const PastHeartbeat = 45 * time.Second

// WaitTimeout bounds each wait on an idle machine, as testenv.Await wants it.
const WaitTimeout = 2 * time.Minute

// GiveUp bounds each wait on a machine that runs all other tests at the same time.
const GiveUp = testenv.Slowdown * WaitTimeout

// HTTPClient returns a client whose calls take at most GiveUp.
func HTTPClient() *http.Client { return &http.Client{Timeout: GiveUp} }
