//go:build unix

package checkout_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/shim/checkout"
	"github.com/drover-run/drover/run"
)

// server serves the repositories of a directory over HTTP, with git's own program.
type server struct {
	testing.TB
	dir, url string
	secret   string       // user:password, if the server asks for it
	failures atomic.Int32 // how many requests to refuse with 503
	bytes    atomic.Int64 // sent
	hosts    atomic.Int32 // requests with credentials
}

func newServer(t *testing.T, secret string) *server {
	t.Helper()
	s := &server{TB: t, dir: t.TempDir(), secret: secret}
	out, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	require.NoError(t, err)
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + s.dir, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + s.dir, "GIT_CONFIG_NOSYSTEM=1"},
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, given := r.BasicAuth()
		if given {
			s.hosts.Add(1)
		}
		switch {
		case s.failures.Add(-1) >= 0:
			http.Error(w, "try again", http.StatusServiceUnavailable)
		case secret != "" && user+":"+password != secret:
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you", http.StatusUnauthorized)
		default:
			backend.ServeHTTP(&counting{w, s}, r)
		}
	}))
	t.Cleanup(web.Close)
	s.url = web.URL
	return s
}

type counting struct {
	http.ResponseWriter
	server *server
}

func (c *counting) Write(p []byte) (int, error) {
	c.server.bytes.Add(int64(len(p)))
	return c.ResponseWriter.Write(p)
}

// git runs git in a directory with a configuration of its own.
func (s *server) git(dir string, args ...string) string {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_ALLOW_PROTOCOL=file:http",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	require.NoError(s, err, "git %v: %s", args, out)
	return strings.TrimSpace(string(out))
}

// repository creates a repository with n commits on main, in each of which the file
// "number" has its number, and returns their names.
func (s *server) repository(name string, n int) []string {
	s.Helper()
	work := filepath.Join(s.TempDir(), "work")
	s.git(s.dir, "init", "--quiet", "--bare", "--initial-branch=main", name)
	s.git(s.dir, "clone", "--quiet", filepath.Join(s.dir, name), work)
	var commits []string
	for i := range n {
		require.NoError(s, os.WriteFile(filepath.Join(work, "number"), fmt.Append(nil, i), 0o600))
		s.git(work, "add", ".")
		s.git(work, "commit", "--quiet", "-m", fmt.Sprint("commit ", i))
		commits = append(commits, s.git(work, "rev-parse", "HEAD"))
	}
	s.git(work, "push", "--quiet", "origin", "HEAD:main")
	return commits
}

// attempt checks out, and returns what was printed.
func (s *server) attempt(r checkout.Request, env ...string) (string, error) {
	s.Helper()
	var stdout, stderr bytes.Buffer
	err := checkout.Run(s.Context(), r, append(os.Environ(), env...), &stdout, &stderr)
	return stdout.String() + stderr.String(), err
}

func (s *server) number(dir string) string {
	s.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "number"))
	require.NoError(s, err)
	return string(content)
}

func TestRun(t *testing.T) {
	t.Parallel()
	s := newServer(t, "")
	commits := s.repository("repo", 30)
	bare := filepath.Join(s.dir, "repo")
	s.git(bare, "tag", "v1", commits[3])
	s.git(bare, "branch", "feature/x", commits[5])
	s.git(bare, "update-ref", "refs/merge-requests/7/head", commits[6])
	for name, c := range map[string]struct {
		checkout run.Checkout
		want     string
		history  int
	}{
		"the default branch":           {run.Checkout{}, "29", 30},
		"a depth":                      {run.Checkout{Depth: 5}, "29", 5},
		"a branch":                     {run.Checkout{Ref: "feature/x"}, "5", 6},
		"a branch by its full name":    {run.Checkout{Ref: "refs/heads/feature/x", Depth: 2}, "5", 2},
		"a tag":                        {run.Checkout{Ref: "v1"}, "3", 4},
		"a commit within the depth":    {run.Checkout{Ref: "main", SHA: commits[28], Depth: 5}, "28", 4},
		"a commit beyond the depth":    {run.Checkout{Ref: "main", SHA: commits[2], Depth: 3}, "2", 3},
		"a commit alone":               {run.Checkout{SHA: commits[9]}, "9", 10},
		"a ref that no branch has":     {run.Checkout{Ref: "refs/merge-requests/7/head"}, "6", 7},
		"refspecs":                     {run.Checkout{RefSpecs: []string{"+refs/heads/*:refs/remotes/origin/*"}, Ref: "feature/x"}, "5", 6},
		"refspecs with a commit":       {run.Checkout{RefSpecs: []string{"+refs/heads/main:refs/remotes/origin/main"}, SHA: commits[1]}, "1", 2},
		"a directory that is missing":  {run.Checkout{Path: "src/deep"}, "29", 30},
		"commit and depth and refspec": {run.Checkout{RefSpecs: []string{"+refs/heads/main:refs/remotes/origin/main"}, SHA: commits[29], Depth: 1}, "29", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.checkout.Repository = s.url + "/repo"
			r := checkout.Request{Checkout: c.checkout, Dir: t.TempDir()}
			out, err := s.attempt(r)
			require.NoError(t, err, out)
			tree := filepath.Join(r.Dir, c.checkout.Path)
			require.Equal(t, c.want, s.number(tree))
			require.Contains(t, out, "HEAD is now at")
			require.Equal(t, fmt.Sprint(c.history), s.git(tree, "rev-list", "--count", "HEAD"))
			require.Empty(t, s.git(tree, "status", "--porcelain"))
			require.Equal(t, s.url+"/repo", s.git(tree, "remote", "get-url", "origin"))
		})
	}
	for name, c := range map[string]struct {
		checkout run.Checkout
		want     string
	}{
		"no such ref":        {run.Checkout{Ref: "none"}, "couldn't find remote ref none"},
		"no such commit":     {run.Checkout{SHA: strings.Repeat("0", 40), Ref: "main"}, "is not in main"},
		"no such repository": {run.Checkout{Repository: s.url + "/none"}, "not found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.checkout.Repository == "" {
				c.checkout.Repository = s.url + "/repo"
			}
			out, err := s.attempt(checkout.Request{Checkout: c.checkout, Dir: t.TempDir()})
			require.Error(t, err)
			require.NotContains(t, out, "attempt")
			require.Contains(t, out+err.Error(), c.want)
		})
	}
}

func TestRun_retries(t *testing.T) {
	t.Parallel()
	s := newServer(t, "")
	s.repository("repo", 3)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	s.failures.Store(1)
	no := false
	out, err := s.attempt(checkout.Request{Checkout: run.Checkout{Repository: s.url + "/repo", Clean: &no}, Dir: dir})
	require.NoError(t, err, out)
	require.Contains(t, out, "attempt 2 of 3 begins after 2s")
	require.Equal(t, "2", s.number(dir))
	require.NoFileExists(t, filepath.Join(dir, "file"), "a failure clears the work tree")

	s.failures.Store(1000)
	out, err = s.attempt(checkout.Request{Checkout: run.Checkout{Repository: s.url + "/repo"}, Dir: dir})
	require.Error(t, err)
	require.Contains(t, out, "attempt 3 of 3 begins after 8s")
	require.Equal(t, int32(1000-3), s.failures.Load())
}

func TestRun_clean(t *testing.T) {
	t.Parallel()
	s := newServer(t, "")
	s.repository("repo", 3)
	for _, clean := range []bool{true, false} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
		out, err := s.attempt(checkout.Request{Checkout: run.Checkout{Repository: s.url + "/repo", Clean: &clean}, Dir: dir})
		require.NoError(t, err, out)
		_, err = os.Stat(filepath.Join(dir, "file"))
		require.Equal(t, clean, os.IsNotExist(err))
	}
}

// TestRun_credentials searches for the password after a checkout. TestSecrets_of_checkouts
// also reads the arguments of all processes during it.
func TestRun_credentials(t *testing.T) {
	t.Parallel()
	password := rand.Text()
	s := newServer(t, "deploy:"+password)
	s.repository("repo", 2)
	r := checkout.Request{Checkout: run.Checkout{Repository: s.url + "/repo"}, Dir: t.TempDir()}
	out, err := s.attempt(r)
	require.Error(t, err, out)
	r.Secret = "deploy:" + password
	out, err = s.attempt(r, "GIT_TRACE=1", "GIT_TRACE_CURL=1", "GIT_CURL_VERBOSE=1")
	require.NoError(t, err, out)
	require.NotContains(t, out, password)
	require.NotContains(t, out, "Authorization")
	s.searchFor(password, r.Dir)

	// The credentials are for the host of the repository alone.
	other := newServer(t, "")
	other.repository("other", 1)
	work := filepath.Join(t.TempDir(), "work")
	s.git(s.dir, "clone", "--quiet", filepath.Join(s.dir, "repo"), work)
	s.git(work, "submodule", "--quiet", "add", other.url+"/other", "module")
	s.git(work, "commit", "--quiet", "-m", "with a submodule")
	s.git(work, "push", "--quiet", "origin", "HEAD:main")
	r.Submodules = run.SubmodulesRecursive
	out, err = s.attempt(r)
	require.NoError(t, err, out)
	require.FileExists(t, filepath.Join(r.Dir, "module", "number"))
	require.Zero(t, other.hosts.Load())
}

// searchFor checks that no file of a directory, which has some, contains a text.
func (s *server) searchFor(text, dir string) {
	s.Helper()
	files := 0
	require.NoError(s, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		content, err := os.ReadFile(name)
		require.NotContains(s, string(content), text, name)
		return err
	}))
	require.Positive(s, files, dir)
}

// shell runs a script in a directory, with PROOF replaced.
func (s *server) shell(dir, script, proof string) {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), "/bin/sh", "-ec", strings.ReplaceAll(script, "PROOF", proof))
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(s, err, "%s", out)
}

// TestRun_executes_nothing checks out into a directory, and with a home directory, in
// which another task has left everything that git may execute.
func TestRun_executes_nothing(t *testing.T) {
	t.Parallel()
	s := newServer(t, "")
	s.repository("repo", 2)
	work := filepath.Join(t.TempDir(), "work")
	s.git(s.dir, "clone", "--quiet", filepath.Join(s.dir, "repo"), work)
	require.NoError(t, os.WriteFile(filepath.Join(work, ".gitattributes"), []byte("* filter=evil diff=evil merge=evil\n"), 0o600))
	s.git(work, "add", ".")
	s.git(work, "commit", "--quiet", "-m", "with filters")
	s.git(work, "push", "--quiet", "origin", "HEAD:main")

	proof := filepath.Join(t.TempDir(), "executed")
	evil := filepath.Join(t.TempDir(), "evil")
	require.NoError(t, os.WriteFile(evil, []byte("#!/bin/sh\necho \"$0 $*\" >> "+proof+"\ncat\n"), 0o700))
	config := fmt.Sprintf(`[core]
	fsmonitor = %[1]s
	hooksPath = %[2]s
	sshCommand = %[1]s
	pager = %[1]s
	gitProxy = %[1]s
[filter "evil"]
	smudge = %[1]s
	clean = %[1]s
	process = %[1]s
[credential]
	helper = %[1]s
[submodule "module"]
	update = !%[1]s
[url "file:///nowhere/"]
	insteadOf = %[3]s/
[include]
	path = %[4]s
`, evil, filepath.Dir(evil), s.url, filepath.Join(filepath.Dir(evil), "more"))
	home, dir, templates := t.TempDir(), t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(config), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(home, ".config", "git"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(home, ".config", "git", "config"), []byte(config), 0o600))
	s.git(dir, "init", "--quiet")
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".git", "config"), []byte(config), 0o600))
	for _, hook := range []string{"post-checkout", "reference-transaction", "post-index-change", "fsmonitor-watchman"} {
		for _, hooks := range []string{filepath.Join(dir, ".git", "hooks"), filepath.Dir(evil), filepath.Join(templates, "hooks")} {
			require.NoError(t, os.MkdirAll(hooks, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(hooks, hook), []byte("#!/bin/sh\necho hook "+hook+" >> "+proof+"\n"), 0o700))
		}
	}
	victim := filepath.Join(t.TempDir(), "victim")
	require.NoError(t, os.WriteFile(victim, []byte("untouched"), 0o600))
	require.NoError(t, os.Symlink(victim, filepath.Join(dir, "number")))
	no := false
	r := checkout.Request{Checkout: run.Checkout{Repository: s.url + "/repo", Clean: &no, Submodules: run.SubmodulesRecursive}, Dir: dir}
	out, err := s.attempt(r, "HOME="+home, "XDG_CONFIG_HOME="+filepath.Join(home, ".config"), "GIT_TEMPLATE_DIR="+templates,
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.fsmonitor", "GIT_CONFIG_VALUE_0="+evil, "GIT_DIR="+t.TempDir(), "GIT_EXTERNAL_DIFF="+evil)
	require.NoError(t, err, out)
	require.Equal(t, "1", s.number(dir))
	content, err := os.ReadFile(proof)
	require.ErrorIs(t, err, os.ErrNotExist, "executed: %s", content)
	content, err = os.ReadFile(victim)
	require.NoError(t, err)
	require.Equal(t, "untouched", string(content))
}

// TestRun_planted_directories checks out where another task has left a symbolic link in
// the path of the work tree, and a repository in the place of a submodule and of a
// submodule of that.
func TestRun_planted_directories(t *testing.T) {
	t.Parallel()
	s := newServer(t, "")
	for _, name := range []string{"inner", "module", "repo"} {
		s.repository(name, 2)
	}
	nest := func(outer, inner string) {
		work := filepath.Join(t.TempDir(), outer)
		s.git(s.dir, "clone", "--quiet", filepath.Join(s.dir, outer), work)
		require.NoError(t, os.WriteFile(filepath.Join(work, ".gitattributes"), []byte("* filter=evil\n"), 0o600))
		s.git(work, "submodule", "--quiet", "add", s.url+"/"+inner, inner)
		s.git(work, "add", ".")
		s.git(work, "commit", "--quiet", "-m", "with a submodule")
		s.git(work, "push", "--quiet", "origin", "HEAD:main")
	}
	nest("module", "inner")
	nest("repo", "module")

	dir, victim := t.TempDir(), t.TempDir()
	precious := filepath.Join(victim, "precious")
	require.NoError(t, os.WriteFile(precious, nil, 0o600))
	require.NoError(t, os.Symlink(victim, filepath.Join(dir, "src")))
	r := checkout.Request{Checkout: run.Checkout{Repository: s.url + "/repo", Path: "src", Submodules: run.SubmodulesRecursive}, Dir: dir}
	out, err := s.attempt(r)
	require.NoError(t, err, out)
	require.FileExists(t, precious)
	for _, name := range []string{"", "module", "module/inner"} {
		require.Equal(t, "1", s.number(filepath.Join(dir, "src", name)))
	}

	// The next task keeps the files, and finds repositories with configuration.
	proof := filepath.Join(t.TempDir(), "executed")
	evil := filepath.Join(t.TempDir(), "evil")
	require.NoError(t, os.WriteFile(evil, []byte("#!/bin/sh\necho \"$0 $*\" >> "+proof+"\ncat\n"), 0o700))
	for _, name := range []string{"module", "module/inner"} {
		place := filepath.Join(dir, "src", name)
		require.NoError(t, os.RemoveAll(filepath.Join(place, ".git")))
		s.git(place, "init", "--quiet")
		require.NoError(t, os.WriteFile(filepath.Join(place, ".git", "config"), fmt.Appendf(nil, "[filter \"evil\"]\n\tsmudge = %[1]s\n\tclean = %[1]s\n\tprocess = %[1]s\n", evil), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(place, "number"), []byte("changed"), 0o600))
	}
	no := false
	r.Clean = &no
	out, err = s.attempt(r)
	require.NoError(t, err, out)
	for _, name := range []string{"", "module", "module/inner"} {
		require.Equal(t, "1", s.number(filepath.Join(dir, "src", name)))
	}
	content, err := os.ReadFile(proof)
	require.ErrorIs(t, err, os.ErrNotExist, "executed: %s", content)

	none := checkout.Request{Checkout: run.Checkout{Repository: s.url + "/repo", Submodules: run.SubmodulesNormal}, Dir: t.TempDir()}
	out, err = s.attempt(none)
	require.NoError(t, err, out)
	require.FileExists(t, filepath.Join(none.Dir, "module", "number"))
	require.NoFileExists(t, filepath.Join(none.Dir, "module", "inner", "number"))
}
