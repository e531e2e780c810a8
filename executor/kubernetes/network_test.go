package kubernetes_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/kubernetes"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// proxy is a TCP proxy to the API server that a test can break.
type proxy struct {
	listener net.Listener
	target   string
	all      sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // value: frozen
	down  bool
}

// newProxy returns a proxy and a client configuration that uses it.
func newProxy(t testing.TB, config *rest.Config) (*proxy, *rest.Config) {
	t.Helper()
	target, err := url.Parse(config.Host)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: l, target: target.Host, conns: make(map[net.Conn]bool)}
	p.all.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.breakAll()
		p.all.Wait()
	})
	through := rest.CopyConfig(config)
	if through.ServerName == "" {
		through.ServerName = target.Hostname()
	}
	target.Host = l.Addr().String()
	through.Host = target.String()
	return p, through
}

func (p *proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.target)
		p.mu.Lock()
		down := p.down
		if err == nil && !down {
			p.conns[in], p.conns[out] = false, false
		}
		p.mu.Unlock()
		if err != nil || down {
			_ = in.Close()
			if out != nil {
				_ = out.Close()
			}
			continue
		}
		p.all.Go(func() { p.copy(out, in) })
		p.all.Go(func() { p.copy(in, out) })
	}
}

// copy forwards bytes until the connection is frozen, then it drops them.
func (p *proxy) copy(to, from net.Conn) {
	_, _ = io.Copy(writerFunc(func(b []byte) (int, error) {
		p.mu.Lock()
		frozen := p.conns[from]
		p.mu.Unlock()
		if frozen {
			return len(b), nil
		}
		return to.Write(b)
	}), from)
	_, _ = to.Close(), from.Close()
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// freeze makes all current connections drop their bytes; new connections work.
func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		p.conns[c] = true
	}
}

// breakAll closes all connections.
func (p *proxy) breakAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

// setDown makes new connections fail, or not.
func (p *proxy) setDown(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

// collect follows a task to its end and retries while the server is out of
// reach, as an executor does.
func collect(ctx context.Context, t testing.TB, h executor.Handle, each func(run.Frame)) (output string, faults int) {
	t.Helper()
	next := int64(1)
	for {
		for f, err := range h.Events(ctx, next) {
			if err != nil {
				require.Equal(t, run.CodeUnavailable, run.CodeOf(err), "%v", err)
				faults++
				break
			}
			require.Equal(t, next, f.N)
			next++
			output += string(f.Data)
			each(f)
			if f.Kind == run.FrameTaskEnd {
				return output, faults
			}
		}
		require.NoError(t, ctx.Err())
	}
}

func TestEvents_over_broken_connections(t *testing.T) {
	t.Parallel()
	const steps = "for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.5; done"
	const want = "1\n2\n3\n4\n5\n6\n7\n8\n9\n"
	for name, harm := range map[string]func(p *proxy){
		"closed": func(p *proxy) { p.breakAll() },
		"frozen": func(p *proxy) { p.freeze() },
		"away": func(p *proxy) {
			p.setDown(true)
			p.breakAll()
			time.AfterFunc(2*time.Second, func() { p.setDown(false) }) //nolint:forbidigo // the length of the fault
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			p, through := newProxy(t, b.config)
			b.driver = b.newDriver(t, func(o *kubernetes.Options) { o.Config = through })
			h := b.start(t, b.definition(t, steps))
			b.driver.SetKeepalive(300 * time.Millisecond) // of the events alone: a busy host may need longer to start
			var harmed sync.Once
			output, _ := collect(testenv.Context(t), t, h, func(f run.Frame) {
				if f.Kind == run.FrameOutput {
					harmed.Do(func() { harm(p) })
				}
			})
			p.breakAll() // connections that are still frozen
			require.Equal(t, want, output)
		})
	}
}

// A lost connection leaves no reader in the container.
func TestEvents_leave_no_reader_behind(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p, through := newProxy(t, b.config)
	b.driver = b.newDriver(t, func(o *kubernetes.Options) { o.Config = through })
	def := b.definition(t, "echo begun; while true; do ps | grep -c '[d]rover-shim read' || true; sleep 0.3; done")
	h := b.start(t, def)
	for range 3 {
		awaitOutput(t, h, "begun")
	}
	p.breakAll()
	testenv.Await(t, func() (bool, string) {
		last := ""
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) //nolint:forbidigo // one try
		defer cancel()
		for f, err := range h.Events(ctx, 1) {
			if err != nil {
				break
			}
			last = string(f.Data)
		}
		return last == "1\n", "readers: " + last
	})
}
