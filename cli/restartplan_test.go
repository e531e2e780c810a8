package cli_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/cli"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/session"
)

// TestRestart_asks edits a specification at a terminal: the restart is made once the user has seen
// what it keeps.
func TestRestart_asks(t *testing.T) {
	t.Parallel()
	tasks := []string{`{"name": "build", "kept": true}`, `{"name": "deploy", "kept": false, "reason": "changed", "detail": "tasks.deploy.image"}`}
	for i := range 25 {
		tasks = append(tasks, fmt.Sprintf(`{"name": "smoke-%d", "kept": false, "reason": "dependency", "detail": "deploy"}`, i))
	}
	tasks = append(tasks, `{"name": "x", "kept": false, "reason": "of a later gateway"}`)
	for name, tt := range map[string]struct {
		answer   string
		terminal bool
		flags    []string
		made     bool
		asked    bool
	}{
		"yes":                    {"y\n", true, []string{"--edit", "--from", "failed"}, true, true},
		"yes in a word":          {"YES\n", true, []string{"--edit", "--from", "failed"}, true, true},
		"return":                 {"\n", true, []string{"--edit", "--from", "failed"}, true, true},
		"no":                     {"n\n", true, []string{"--edit", "--from", "failed"}, false, true},
		"another word":           {"what?\n", true, []string{"--edit", "--from", "failed"}, false, true},
		"the end of the input":   {"", true, []string{"--edit", "--from", "failed"}, false, true},
		"no terminal":            {"", false, []string{"--edit", "--from", "failed"}, true, false},
		"named tasks":            {"n\n", true, []string{"--edit", "--task", "deploy"}, false, true},
		"from the start":         {"n\n", true, []string{"--edit"}, true, false},
		"without another text":   {"n\n", true, []string{"--from", "failed"}, true, false},
		"only the plan":          {"", true, []string{"--edit", "--from", "failed", "--dry-run"}, false, false},
		"only the plan, no edit": {"", true, []string{"--dry-run"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made := false
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				switch {
				case strings.HasSuffix(r.URL.Path, "/spec"):
					_, _ = io.WriteString(w, `{"name": "n", "group": "/a/b", "tasks": {"deploy": {"steps": [{"run": "true"}]}}}`)
				case strings.HasSuffix(r.URL.Path, "/restart/plan"):
					_, _ = io.WriteString(w, `{"tasks": [`+strings.Join(tasks, ", ")+`]}`)
				default:
					made = made || strings.HasSuffix(r.URL.Path, "/restart")
					w.WriteHeader(http.StatusCreated)
					_, _ = io.WriteString(w, `{"id": "r2", "result": "unknown", "phase": "queued"}`)
				}
			}))
			defer server.Close()
			var out, messages strings.Builder
			// The editor gets a file as its standard input, of which it reads nothing.
			answer := filepath.Join(t.TempDir(), "answer")
			require.NoError(t, os.WriteFile(answer, []byte(tt.answer), 0o600))
			stdin, err := os.Open(answer)
			require.NoError(t, err)
			defer func() { _ = stdin.Close() }()
			env := session.Env{Stdin: stdin, Stdout: &out, Stderr: &messages, LookupEnv: func(name string) (string, bool) {
				value, ok := map[string]string{"DROVER_SERVER": server.URL, "EDITOR": "sed -i -e s/true/false/"}[name]
				return value, ok
			}}
			if tt.terminal {
				env.MakeRaw = func() (func(), error) { return func() {}, nil }
			}
			require.Equal(t, command.ExitOK, command.Execute(t.Context(), cli.New(env), append([]string{"runs", "restart", "r1"}, tt.flags...)), messages.String())
			require.Equal(t, tt.made, made)
			require.Equal(t, tt.made, out.String() == "r2\n", out.String())
			require.Equal(t, tt.asked, strings.Contains(messages.String(), "Restart the run? [Y/n]"), messages.String())
			require.Equal(t, strings.Contains(strings.Join(tt.flags, " "), "--edit") && !tt.made, strings.Contains(messages.String(), "The changed file is kept"))
			if tt.asked {
				require.Contains(t, messages.String(), "1 task keeps its result, 27 tasks run:\n  deploy: tasks.deploy.image is changed\n  smoke-0: it depends on deploy\n")
				require.Contains(t, messages.String(), "\n  and 7 more, which --dry-run shows\n")
			}
			if !tt.made && !tt.asked {
				require.Contains(t, out.String(), "\nx ")
				require.Contains(t, out.String(), "runs: of a later gateway\n")
			}
		})
	}
}
