//go:build unix

package docker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/docker"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// crashVariable is the environment variable that holds the order of a process
// that is to be killed.
const crashVariable = "DROVER_TEST_DOCKER_VICTIM"

// crashOrder says which task a process starts and when the process dies.
type crashOrder struct {
	ExecutorID, Prefix, Shim string
	Definition               run.Definition
	Launched                 string // file that Launch creates
	Request                  int    // which request to the daemon, from 1; else
	Path                     string // has this in its first line
	Answered                 bool   // die at the answer, not before the request is sent
	DieInLaunch              bool   // die right after the launch was recorded
	Resume                   bool   // resume where another process died in its launch
}

// crashProcess is a process that starts a task and kills itself at some point. It
// exits with 0 if it finishes.
func crashProcess(text string) int {
	var order crashOrder
	if err := json.Unmarshal([]byte(text), &order); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cli, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation(), crashDialer(order))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	d, err := docker.New(docker.Options{Client: cli, ExecutorID: order.ExecutorID, Prefix: order.Prefix, ShimPath: order.Shim})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, err = d.Start(context.Background(), executor.Task{Definition: order.Definition, Resume: order.Resume, Launch: func() (int64, error) {
		if err := os.WriteFile(order.Launched, nil, 0o600); err != nil {
			return 0, err
		}
		if order.DieInLaunch {
			die()
		}
		return 1, nil
	}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func die() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }

// crashDialer counts the requests on the client's connections.
func crashDialer(order crashOrder) client.Opt {
	return func(c *client.Client) error {
		host, err := client.ParseHostURL(c.DaemonHost())
		if err != nil {
			return err
		}
		var mu sync.Mutex
		sent := 0
		return client.WithDialContext(func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, host.Scheme, host.Host)
			return &crashConn{Conn: conn, order: order, mu: &mu, sent: &sent}, err
		})(c)
	}
}

type crashConn struct {
	net.Conn
	order     crashOrder
	mu        *sync.Mutex
	sent      *int
	dieOnRead bool // the process dies when it reads the answer
}

func (c *crashConn) Write(p []byte) (int, error) {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
		if !bytes.HasPrefix(p, []byte(method+" /")) {
			continue
		}
		c.mu.Lock()
		*c.sent++
		line, _, _ := bytes.Cut(p, []byte("\r\n"))
		if *c.sent == c.order.Request || c.order.Path != "" && bytes.Contains(line, []byte(c.order.Path)) {
			if !c.order.Answered {
				die()
			}
			c.dieOnRead = true
		}
		c.mu.Unlock()
	}
	return c.Conn.Write(p)
}

func (c *crashConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dieOnRead {
		die()
	}
	return n, err
}

// CloseWrite forwards the call, which the hijacked connection needs.
func (c *crashConn) CloseWrite() error { return c.Conn.(types.CloseWriter).CloseWrite() }

// TestDriver_Start_survives_kills kills the process that starts a task around
// each of its requests to the daemon, and continues with another process. The
// steps run exactly once and nothing is left at the end.
func TestDriver_Start_survives_kills(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const requests = 12 // of a start that fills the shared volume
	for request := 1; request <= requests+1; request++ {
		for _, answered := range []bool{false, true} {
			t.Run(fmt.Sprintf("request_%d_answered_%t", request, answered), func(t *testing.T) {
				t.Parallel()
				died := b.startWithCrashes(t, crashOrder{Request: request, Answered: answered})
				require.Equal(t, request <= requests, died, "how many requests a start makes")
			})
		}
	}
	t.Run("launch", func(t *testing.T) {
		t.Parallel()
		require.True(t, b.startWithCrashes(t, crashOrder{DieInLaunch: true}))
	})
	for _, path := range []string{"/attach", "/start"} {
		for _, answered := range []bool{false, true} {
			t.Run(fmt.Sprintf("launch_then%s_answered_%t", path, answered), func(t *testing.T) {
				t.Parallel()
				require.True(t, b.startWithCrashes(t, crashOrder{DieInLaunch: true}, crashOrder{Resume: true, Path: path, Answered: answered}))
			})
		}
	}
}

// startWithCrashes runs processes that start a task and die, one after the other, and
// continues where the last one died. The task has a prefix of its own, so that
// the filling of the shared volume is interrupted too. It reports whether the
// last process died.
func (b *bench) startWithCrashes(t *testing.T, orders ...crashOrder) (died bool) {
	t.Helper()
	order := crashOrder{
		ExecutorID: b.id, Prefix: "drover-test-" + newID(t), Shim: testenv.BuildShim(t), Launched: filepath.Join(t.TempDir(), "launched"),
		Definition: b.definition(t, "echo once >>/count; cat /count"),
	}
	if orders[0].Definition.Key != (run.Key{}) {
		order.Definition = orders[0].Definition
	}
	for _, o := range orders {
		order.Request, order.Path, order.Answered, order.DieInLaunch, order.Resume = o.Request, o.Path, o.Answered, o.DieInLaunch, o.Resume
		died = crashes(t, order)
	}
	_, missing := os.Stat(order.Launched)

	d := b.newDriver(t, docker.Options{Prefix: order.Prefix})
	d.SetSetupTimeout(time.Second)
	h, err := d.Start(t.Context(), executor.Task{Definition: order.Definition, Launch: launchAt(1), Resume: missing == nil})
	require.NoError(t, err)
	s := follow(t, h, 1)
	require.Equal(t, "once\n", s.output)
	require.Equal(t, run.StatusSuccess, s.result.Status)
	require.NoError(t, h.Remove(t.Context()))
	b.requirePrefixGone(t, order.Prefix)
	return died
}

// crashes runs a process by order, and reports whether it died.
func crashes(t *testing.T, order crashOrder) bool {
	t.Helper()
	text, err := json.Marshal(order)
	require.NoError(t, err)
	process := exec.CommandContext(t.Context(), os.Args[0])
	process.Env = append(os.Environ(), crashVariable+"="+string(text))
	out, err := process.CombinedOutput()
	if err != nil {
		require.Contains(t, err.Error(), "killed", string(out))
	}
	return err != nil
}

// requirePrefixGone removes the shared volume of a prefix and fails if anything
// else with that prefix is left.
func (b *bench) requirePrefixGone(t *testing.T, prefix string) {
	t.Helper()
	require.Empty(t, b.containersNamed(t, prefix))
	networks, err := b.cli.NetworkList(t.Context(), network.ListOptions{Filters: filters.NewArgs(filters.Arg("name", prefix))})
	require.NoError(t, err)
	require.Empty(t, networks)
	volumes := b.volumesNamed(t, prefix)
	require.Len(t, volumes, 1, "the shared volume")
	require.NoError(t, b.cli.VolumeRemove(t.Context(), volumes[0], false))
}
