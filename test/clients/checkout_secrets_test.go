package clients

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/test/harness"
)

// gitHost serves repositories to clients that know a password. Each request with the
// password collects the arguments of all processes, among them those of its client.
type gitHost struct {
	url       string
	mu        sync.Mutex
	arguments bytes.Buffer
}

func startGitHost(t *testing.T, root, secret string) *gitHost {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	require.NoError(t, err)
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + t.TempDir()},
	}
	h := new(gitHost)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user+":"+password != secret {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "no access", http.StatusUnauthorized)
			return
		}
		h.collect()
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	h.url = server.URL
	return h
}

func (h *gitHost) collect() {
	h.mu.Lock()
	defer h.mu.Unlock()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		text, _ := os.ReadFile(file) // the process may have ended
		h.arguments.Write(append(text, '\n'))
	}
}

// TestSecrets_of_checkouts checks out with credentials, with and without an object store,
// and with a wrong password. No stored file, log or process argument has a password.
func TestSecrets_of_checkouts(t *testing.T) {
	t.Parallel()
	password, wrong, shown := rand.Text(), rand.Text(), rand.Text()
	repository := cloneOfThis(t)
	host := startGitHost(t, filepath.Dir(repository), "deploy:"+password)
	dev := harness.StartDev(t, []string{"DROVER_LOG__LEVEL=debug"}, "--executor", "shell")
	client := harness.NewClient(t, dev.Server, dev.Token)
	spec := func(password string) string {
		return fmt.Sprintf(`name: checkout
group: /test/checkout
annotations: {shown: %s}
secrets: {GIT_TOKEN: "deploy:%s"}
tasks:
  a:
    environment: {GIT_TRACE: "1", GIT_TRACE_CURL: "1", GIT_CURL_VERBOSE: "1", GIT_TRACE_SETUP: "1"}
    steps:
    - checkout: {repository: '%[3]s/repository', credentials: GIT_TOKEN}
    - run: |
        git config --list; git remote -v
        echo "files with it: $(find . -type f -exec grep -l "${GIT_TOKEN#*:}" {} + | wc -l)"
  b:
    depends: [{task: a, on: [success, failure]}]
    steps:
    - checkout: {repository: '%[3]s/repository', credentials: GIT_TOKEN, reuse: true, depth: 5}
    - run: test -f hello.yaml
`, shown, password, host.url)
	}
	scan := newSecretScan(t)
	for given, status := range map[string]api.Status{password: api.StatusSuccess, wrong: api.StatusFailed} {
		id := client.Submit(spec(given)).ID
		r := client.AwaitPhase(id, api.PhaseFinished)
		for name, task := range r.Tasks {
			log := client.Logs(id, name)
			require.Equal(t, status, task.Status, "%s: %s\n%s", name, task.Reason, log)
			require.Equal(t, name == "a" && status == api.StatusSuccess, strings.Contains(log, "\nfiles with it: 0\n"), log)
			scan.add("answer "+name, log+task.Reason)
		}
	}
	require.NoError(t, dev.Stop())
	scan.addFiles(dev.Dir)
	host.mu.Lock()
	defer host.mu.Unlock()
	scan.add("arguments", host.arguments.String())
	for _, text := range []string{password, wrong} {
		require.Empty(t, scan.sources(text))
	}
	require.NotEmpty(t, withPrefix(scan.sources("git-remote-http"), "arguments"), "the scan reads the arguments of git")
	require.NotEmpty(t, withPrefix(scan.sources(shown), "rows of data/records.db"))
	require.NotEmpty(t, withPrefix(scan.sources("HEAD is now at"), "answer"))
	require.True(t, slices.ContainsFunc(scan.texts, func(s scannedText) bool { return strings.Contains(s.source, "/repository.git/") }), "the scan reads object stores")
}
