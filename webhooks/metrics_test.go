package webhooks_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/webhooks"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		r := w.newReceiver()
		w.opts.Metrics = webhooks.NewMetrics()
		requireMetrics := func(name, want string) {
			t.Helper()
			testenv.Await(t, func() (bool, string) {
				err := testutil.CollectAndCompare(w.opts.Metrics, strings.NewReader(want), name)
				return err == nil, "the metrics differ: " + errorText(err)
			})
		}
		r.setAnswer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
		w.put(r, nil)
		_, stop := w.deliver()
		w.createEvents("/a/b", 1)
		w.await(func(h run.Webhook) bool { return h.Failures > 1 })
		require.Equal(t, 1, testutil.CollectAndCount(w.opts.Metrics, "drover_webhook_failures"))
		r.setAnswer(nil)
		requireMetrics("drover_webhook_failures", `
			# HELP drover_webhook_failures Attempts in a row that failed, of the webhooks that this process delivers.
			# TYPE drover_webhook_failures gauge
			drover_webhook_failures{webhook="ci"} 0
	`)
		requireMetrics("drover_webhook_events_total", `
			# HELP drover_webhook_events_total Events that receivers have taken.
			# TYPE drover_webhook_events_total counter
			drover_webhook_events_total{webhook="ci"} 1
	`)
		require.Equal(t, 2, testutil.CollectAndCount(w.opts.Metrics, "drover_webhook_attempts_total"), "failed and accepted attempts")
		stop()
		require.Zero(t, testutil.CollectAndCount(w.opts.Metrics, "drover_webhook_failures"), "this process does not deliver the webhook any more")
	})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
