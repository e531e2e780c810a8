package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
)

func TestWhyNoLog(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		task     api.Task
		want     string
		services []string
	}{
		"ran":              {api.Task{Status: api.StatusSuccess, Executor: "host-7"}, "", nil},
		"service, silent":  {api.Task{Status: api.StatusSuccess, Executor: "host-7"}, "task t has no output of service db, web", []string{"db", "web"}},
		"service, running": {api.Task{Status: api.StatusRunning, Executor: "host-7"}, "the output of services is stored when task t ends; it is running", []string{"db"}},
		"service, queued":  {api.Task{Status: api.StatusQueued}, "task t has not run yet; it is queued", []string{"db"}},
		"queued":           {api.Task{Status: api.StatusQueued, Reason: "no executor is online"}, "task t has not run yet; it is queued: no executor is online", nil},
		"waiting":          {api.Task{Status: api.StatusWaitingApproval}, "task t has not run yet; it is waiting approval", nil},
		"skipped":          {api.Task{Status: api.StatusSkipped, Reason: "needs a"}, "task t did not run; it is skipped: needs a", nil},
		"foreach":          {api.Task{Status: api.StatusSuccess, Reason: "tasks created from its list: 2"}, "task t has no log of its own; it is success: tasks created from its list: 2", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, whyNoLog("t", tt.task, tt.services...))
		})
	}
}
