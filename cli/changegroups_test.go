package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/cli/command"
)

// TestChangeGroups_tasks: tasks that hold slots fill a change group as runs do, also those
// that are not listed, and with a gateway that does not count them.
func TestChangeGroups_tasks(t *testing.T) {
	t.Parallel()
	const lists = `"max_running": 4, "on_busy": "queue", "running": ["run-1"], "queued": ["run-2"],
		"holding_tasks": [{"run": "run-3", "task": "deploy", "units": 9}], "waiting_tasks": [{"run": "run-4", "task": "deploy", "units": 2}]`
	group := `{"name": "new", ` + lists + `, "held": 1205, "waiting": 3007, "changegroup_token": "x"}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/new") {
			_, _ = fmt.Fprint(w, group)
			return
		}
		_, _ = fmt.Fprint(w, `{"changegroups": [`+group+`, {"name": "old", `+lists+`}]}`)
	}))
	t.Cleanup(server.Close)
	code, stdout, stderr := execute(t, server.URL, nil, "changegroups", "list")
	require.Equal(t, command.ExitOK, code, stderr)
	require.Equal(t, "NAME   LIMIT   ON BUSY   HELD   WAITING\n"+
		"new    4       queue     1205   3007\n"+
		"old    4       queue     5      2\n", stdout)
	code, stdout, stderr = execute(t, server.URL, nil, "changegroups", "get", "new")
	require.Equal(t, command.ExitOK, code, stderr)
	require.Equal(t, `name:           new
limit:          4
on busy:        queue
slots held:     1205
waiting:        3007
running:        1 run
queued:         1 run
update token:   x

RUN     TASK     STATE
run-1   -        holds a slot
run-3   deploy   holds 4 slots
run-4   deploy   waits for 2 slots
run-2   -        waits
`, stdout)
}
