package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
)

func TestWhyNoLog(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		task api.Task
		want string
	}{
		"ran":     {api.Task{Status: api.StatusSuccess, Executor: "host-7"}, ""},
		"queued":  {api.Task{Status: api.StatusQueued, Reason: "no executor is online"}, "task t has not run yet; it is queued: no executor is online"},
		"waiting": {api.Task{Status: api.StatusWaitingApproval}, "task t has not run yet; it is waiting approval"},
		"skipped": {api.Task{Status: api.StatusSkipped, Reason: "needs a"}, "task t did not run; it is skipped: needs a"},
		"foreach": {api.Task{Status: api.StatusSuccess, Reason: "tasks created from its list: 2"}, "task t has no log of its own; it is success: tasks created from its list: 2"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, whyNoLog("t", tt.task))
		})
	}
}
