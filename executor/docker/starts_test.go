package docker_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/docker"
	"github.com/drover-run/drover/run"
)

// requests sees the requests of a client before the daemon does.
type requests struct {
	http.RoundTripper
	before func(r *http.Request)
}

func (r requests) RoundTrip(request *http.Request) (*http.Response, error) {
	r.before(request)
	return r.RoundTripper.RoundTrip(request)
}

// newDriverSeen returns a driver whose requests a function sees first.
func (b *bench) newDriverSeen(t testing.TB, before func(r *http.Request)) *docker.Driver {
	t.Helper()
	transport := requests{RoundTripper: b.cli.HTTPClient().Transport, before: before}
	cli, err := client.NewClientWithOpts(client.WithHost(b.cli.DaemonHost()), client.WithHTTPClient(&http.Client{Transport: transport}), client.WithAPIVersionNegotiation())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cli.Close()) })
	return b.newDriver(t, docker.Options{Client: cli})
}

// TestDriver_Start_beside_a_slow_one starts a task that another process is starting, so
// slowly that its container seems to be abandoned.
func TestDriver_Start_beside_a_slow_one(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(p *pair, t *testing.T){
		"which starts at the last moment": (*pair).startsBeforeTheRemoval,
		"whose container was removed":     (*pair).startsAfterTheSecond,
		"which gives up meanwhile":        (*pair).givesUpMeanwhile,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			start(&pair{
				bench: b, def: b.definition(t, "while ! [ -f /tmp/go ]; do sleep 0.05; done; echo once"),
				created: make(chan struct{}), begin: make(chan struct{}), ended: make(chan struct{}), second: make(chan struct{}),
			}, t)
		})
	}
}

// TestDriver_Start_beside_slow_services starts a task whose services another process is
// starting, so slowly that it seems to be dead. It fails while the second one starts the
// services, and must not remove what is not its own.
func TestDriver_Start_beside_slow_services(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"which wait": false, "which are not created": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			def := b.definition(t, "echo once")
			def.Services = []run.ServiceSpec{{
				Name: "db", Image: b.image, Command: []string{"sleep", "60"}, Health: &run.HealthCheck{Command: []string{"true"}},
			}}
			service := "drover-" + def.Key.String() + ".service0"
			hangs, proceed, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
			hang := sync.OnceFunc(func() {
				close(hangs)
				<-proceed
			})
			slow := b.newDriverSeen(t, func(r *http.Request) {
				c, err := b.cli.ContainerInspect(t.Context(), service)
				creates := r.URL.Query().Get("name") == service
				if late && creates || err == nil && strings.HasSuffix(r.URL.Path, c.ID+"/json") {
					hang()
				}
			})
			var failed error
			go func() {
				defer close(ended)
				_, failed = slow.Start(t.Context(), executor.Task{Definition: def, Launch: func() (int64, error) {
					t.Error("the first process launched the task")
					return 1, nil
				}})
			}()
			<-hangs
			release := sync.OnceFunc(func() {
				close(proceed)
				<-ended
			})
			h, err := b.newDriverSeen(t, func(r *http.Request) {
				c, err := b.cli.ContainerInspect(t.Context(), service)
				creates := r.URL.Query().Get("name") == service
				if late && creates || !late && err == nil && strings.HasSuffix(r.URL.Path, c.ID+"/start") {
					release()
				}
			}).Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1)})
			release()
			require.Equal(t, run.CodeUnavailable, run.CodeOf(failed), "%v", failed)
			require.NoError(t, err)
			b.removeAfter(t, h)
			require.Equal(t, "once\n", follow(t, h, 1).output)
		})
	}
}

// TestDriver_Start_removes_only_the_service_that_it_saw starts a task whose service has the
// name of one that is left. Before that one is removed, another process replaces the task's
// container and the service.
func TestDriver_Start_removes_only_the_service_that_it_saw(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.definition(t, "echo once")
	def.Services = []run.ServiceSpec{{Name: "db", Image: b.image, Command: []string{"sleep", "60"}}}
	main := "drover-" + def.Key.String()
	service := main + ".service0"
	create := func() string {
		c, err := b.cli.ContainerCreate(t.Context(), &container.Config{Image: b.image}, nil, nil, nil, service)
		require.NoError(t, err)
		t.Cleanup(func() {
			err := b.cli.ContainerRemove(context.WithoutCancel(t.Context()), c.ID, container.RemoveOptions{Force: true})
			require.True(t, err == nil || cerrdefs.IsNotFound(err), "%v", err)
		})
		return c.ID
	}
	left, second := create(), ""
	replace := sync.OnceFunc(func() {
		for _, id := range []string{main, left} {
			require.NoError(t, b.cli.ContainerRemove(t.Context(), id, container.RemoveOptions{Force: true, RemoveVolumes: true}))
		}
		second = create()
	})
	_, err := b.newDriverSeen(t, func(r *http.Request) {
		if r.Method == http.MethodDelete && (strings.HasSuffix(r.URL.Path, service) || strings.HasSuffix(r.URL.Path, left)) {
			replace()
		}
	}).Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1)})
	require.Equal(t, run.CodeUnavailable, run.CodeOf(err), "%v", err)
	require.NotEmpty(t, second)
	_, err = b.cli.ContainerInspect(t.Context(), second)
	require.NoError(t, err, "the service of the other process")
}

// pair are two processes that start a task. The container of the first one is created,
// and is started only after begin is closed.
type pair struct {
	*bench

	def     run.Definition
	created chan struct{} // closed when the first one has created its container
	begin   chan struct{}
	ended   chan struct{} // closed when the first call has returned
	second  chan struct{} // closed when the second call has returned

	first  executor.Handle
	failed error
	main   string // the first container
}

// start returns the handle of the second process. The functions see the requests.
func (p *pair) start(t *testing.T, first, second func(r *http.Request)) executor.Handle {
	t.Helper()
	var once sync.Once
	slow := p.newDriverSeen(t, func(r *http.Request) {
		if c, err := p.cli.ContainerInspect(t.Context(), p.name()); err == nil && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, c.ID+"/start") {
			once.Do(func() {
				p.main = c.ID
				close(p.created)
			})
			<-p.begin
		}
		first(r)
	})
	go func() {
		defer close(p.ended)
		p.first, p.failed = slow.Start(t.Context(), executor.Task{Definition: p.def, Launch: launchAt(1)})
	}()
	select {
	case <-p.created:
	case <-p.ended:
		require.NoError(t, p.failed)
	}
	h, err := p.newDriverSeen(t, second).Start(t.Context(), executor.Task{Definition: p.def, Launch: launchAt(1)})
	close(p.second)
	require.NoError(t, err)
	p.removeAfter(t, h)
	return h
}

func (p *pair) name() string { return "drover-" + p.def.Key.String() }

func (p *pair) requireOnce(t *testing.T, h executor.Handle) {
	t.Helper()
	require.NoError(t, h.CopyTo(t.Context(), "/tmp", fileNamed(t, "go")))
	require.Equal(t, "once\n", follow(t, h, 1).output)
}

func ignore(*http.Request) {}

func (p *pair) startsBeforeTheRemoval(t *testing.T) {
	h := p.start(t, ignore, func(r *http.Request) {
		if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, p.main) {
			close(p.begin)
			<-p.ended
		}
	})
	require.NoError(t, p.failed)
	p.requireOnce(t, h)
	require.Equal(t, "once\n", follow(t, p.first, 1).output)
}

func (p *pair) startsAfterTheSecond(t *testing.T) {
	h := p.start(t, ignore, ignore)
	close(p.begin)
	<-p.ended
	require.Error(t, p.failed)
	p.requireOnce(t, h)
}

func (p *pair) givesUpMeanwhile(t *testing.T) {
	removes := make(chan struct{})
	seen := sync.OnceFunc(func() { close(removes) })
	h := p.start(t, func(r *http.Request) {
		if p.main != "" && r.Method == http.MethodDelete && (strings.HasSuffix(r.URL.Path, p.main) || strings.HasSuffix(r.URL.Path, p.name())) {
			seen()
			<-p.second
		}
	}, func(r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/containers/create") && r.URL.Query().Get("name") == p.name() && p.removed(t) {
			close(p.begin)
			<-removes
		}
	})
	<-p.ended
	require.Error(t, p.failed)
	p.requireOnce(t, h)
}

// removed reports whether there is no main container.
func (p *pair) removed(t *testing.T) bool {
	t.Helper()
	_, err := p.cli.ContainerInspect(t.Context(), p.name())
	return err != nil
}
