package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/remote"
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

// TestLogs_page checks that lines have a web address if the web UI has their numbers.
func TestLogs_page(t *testing.T) {
	t.Parallel()
	client, err := remote.New(remote.Options{Server: "https://ci.example.com/drover/"})
	require.NoError(t, err)
	for name, x := range map[string]struct {
		services []string
		query    remote.LogQuery
		want     string
	}{
		"the task's log":       {nil, remote.LogQuery{}, "?line=8"},
		"an attempt":           {nil, remote.LogQuery{Attempt: 2}, "?attempt=2&line=8"},
		"a service":            {[]string{"db"}, remote.LogQuery{Streams: []string{"service:db"}}, "?line=8&service=db"},
		"services":             {[]string{"db", "web"}, remote.LogQuery{Streams: []string{"service:db", "service:web"}}, ""},
		"a stream":             {nil, remote.LogQuery{Streams: []string{"stderr"}}, ""},
		"a service and others": {[]string{"db"}, remote.LogQuery{Streams: []string{"stderr", "service:db"}}, ""},
		"a step":               {nil, remote.LogQuery{Step: "0"}, ""},
	} {
		x.query.Run, x.query.Task = "r1", "test[GO=1.26/x]"
		if x.want != "" {
			x.want = "https://ci.example.com/drover/runs/r1/tasks/test%5BGO=1.26%2Fx%5D" + x.want
		}
		require.Equal(t, x.want, (&logsFlags{services: x.services}).page(client, x.query, 7), name)
	}
}
