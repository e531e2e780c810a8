package cli_test

import (
	"context"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/cli"
	"github.com/drover-run/drover/cli/clitest"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/session"
)

var update = flag.Bool("update", false, "update the golden files")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"drover": func() { os.Exit(int(drover())) }})
}

// drover runs the command line as a process, with a fixed clock.
func drover() command.ExitCode {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return command.Execute(ctx, cli.New(session.Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, LookupEnv: os.LookupEnv,
		UserConfigDir: func() (string, error) { return os.Getenv("CONFIG_DIR"), nil },
		Now:           func() time.Time { return clitest.Start().Add(10 * time.Minute) },
		Location:      time.UTC,
	}), os.Args[1:])
}

// TestScript runs the scripts of testdata/script, each with a gateway of its own.
// -update updates the golden parts.
func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:           filepath.Join("testdata", "script"),
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			g := clitest.New(env.T().(testing.TB))
			env.Values["gateway"] = g
			env.Setenv("DROVER_SERVER", g.URL)
			env.Setenv("DROVER_TOKEN", clitest.Token)
			env.Setenv("BELOW", below(env.T().(testing.TB), g))
			env.Setenv("CONFIG_DIR", filepath.Join(env.WorkDir, "config"))
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits, "sorted": sorted, "mkcontext": mkcontext, "awaits": awaits, "awaits-follower": awaitsFollower,
			"token": token, "waiting": addWaitingRuns, "as": callAs, "outputs": addOutputs, "stages": addStages,
		},
	})
}

// below returns the URL of a gateway that a proxy has below a base path, and nothing else.
func below(t testing.TB, g *clitest.Gateway) string {
	t.Helper()
	const base = "/ci/drover"
	proxy := http.NewServeMux()
	proxy.Handle(base+"/", http.StripPrefix(base, g.Config.Handler))
	server := httptest.NewServer(proxy)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL + base
}

// exits runs a command and expects an exit code: exits CODE drover ARGS...
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		code = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if code != args[0] {
		ts.Fatalf("the command exited with %s and not %s", code, args[0])
	}
}

// token runs a command and stores the update token of its JSON in a variable:
//
// token VARIABLE drover ARGS...
func token(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Exec(args[1], args[2:]...))
	_, text, _ := strings.Cut(ts.ReadFile("stdout"), `"changegroup_token": "`)
	text, _, ok := strings.Cut(text, `"`)
	if !ok {
		ts.Fatalf("the output has no update token")
	}
	ts.Setenv(args[0], text)
}

// sorted compares a file and ignores the order of lines: the order of concurrent
// tasks is not fixed.
func sorted(ts *testscript.TestScript, _ bool, args []string) {
	lines := func(name string) []string { return slices.Sorted(strings.Lines(ts.ReadFile(name))) }
	if got, want := lines(args[0]), lines(args[1]); !slices.Equal(got, want) {
		ts.Fatalf("got\n%s\nand not\n%s", strings.Join(got, ""), strings.Join(want, ""))
	}
}

// mkcontext writes a context as drover dev does: mkcontext FILE SERVER.
func mkcontext(ts *testscript.TestScript, _ bool, args []string) {
	token := ts.MkAbs(args[0] + ".token")
	ts.Check(os.MkdirAll(filepath.Dir(token), 0o700))
	ts.Check(os.WriteFile(token, []byte(clitest.Token+"\n"), 0o600))
	_, _, err := session.AddContext(session.Env{
		LookupEnv: func(string) (string, bool) { return ts.MkAbs(args[0]), true },
	}, "dev", session.Context{Server: args[1], TokenFile: token}, func(string) bool { return false })
	ts.Check(err)
}

// awaits waits for the status of a task: awaits STATUS RUN TASK.
func awaits(ts *testscript.TestScript, _ bool, args []string) {
	g := ts.Value("gateway").(*clitest.Gateway)
	if !g.AwaitStatus(args[1], args[2], args[0]) {
		ts.Fatalf("task %s did not become %s", args[2], args[0])
	}
}

// awaitsFollower waits until a client follows the events for the nth time:
// awaits-follower [N].
func awaitsFollower(ts *testscript.TestScript, _ bool, args []string) {
	n := 1
	if len(args) > 0 {
		n = int(args[0][0] - '0')
	}
	if !ts.Value("gateway").(*clitest.Gateway).AwaitRequest("GET /api/v1/events", n) {
		ts.Fatalf("no client followed the events")
	}
}

func TestContextPath(t *testing.T) {
	t.Parallel()
	require.Empty(t, session.ContextPath(session.Env{}))
	env := session.Env{UserConfigDir: func() (string, error) { return "/home/ada/.config", nil }}
	require.Equal(t, filepath.FromSlash("/home/ada/.config/drover/context.yaml"), session.ContextPath(env))
	env.LookupEnv = func(name string) (string, bool) { return "/tmp/c.yaml", name == "DROVER_CONTEXT" }
	require.Equal(t, "/tmp/c.yaml", session.ContextPath(env))
}

func TestAddContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := session.Env{UserConfigDir: func() (string, error) { return filepath.Join(dir, "config"), nil }}
	add := func(server string, others bool) (string, bool) {
		t.Helper()
		name, current, err := session.AddContext(env, "dev", session.Context{Server: server, TokenFile: "/data/token"}, func(string) bool { return others })
		require.NoError(t, err)
		return name, current
	}
	for _, step := range []struct {
		server  string
		others  bool // the other servers answer
		name    string
		current bool
	}{
		{"http://127.0.0.1:1", true, "dev", true},
		{"http://127.0.0.1:2", true, "dev-2", false},
		{"http://127.0.0.1:2/ci/drover", true, "dev-2-ci-drover", false},
		{"http://127.0.0.1:1", true, "dev", true},
		{"http://127.0.0.1:3", false, "dev", true},
	} {
		name, current := add(step.server, step.others)
		require.Equal(t, step.name, name, step.server)
		require.Equal(t, step.current, current, step.server)
	}
	all, err := session.ReadContexts(env)
	require.NoError(t, err)
	require.Equal(t, []string{"dev", "dev-2", "dev-2-ci-drover"}, all.Names())
	require.Equal(t, session.Context{Server: "http://127.0.0.1:3", TokenFile: "/data/token"}, all.Contexts["dev"])
	info, err := os.Stat(session.ContextPath(env))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	require.NoError(t, os.WriteFile(session.ContextPath(env), []byte("damaged"), 0o600))
	name, current := add("http://127.0.0.1:4", true)
	require.Equal(t, "dev", name)
	require.True(t, current)
}
