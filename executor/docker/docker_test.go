package docker_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/docker/docker/client"
	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"strings"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/docker"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// bench is what a test of the driver needs.
type bench struct {
	cli    *client.Client
	image  string
	driver *docker.Driver
}

func newBench(t testing.TB) *bench {
	t.Helper()
	cli := testenv.RequireDocker(t)
	b := &bench{cli: cli, image: testenv.BusyboxImage(t, cli)}
	b.driver = b.newDriver(t, docker.Options{})
	return b
}

func (b *bench) newDriver(t testing.TB, options docker.Options) *docker.Driver {
	t.Helper()
	options.Client, options.ShimPath = b.cli, testenv.BuildShim(t)
	if options.ExecutorID == "" {
		options.ExecutorID = "test-" + strings.ToLower(ulid.Make().String())
	}
	d, err := docker.New(options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func newKey(t testing.TB) run.Key {
	t.Helper()
	id, err := ulid.New(ulid.Timestamp(time.Now()), rand.Reader)
	require.NoError(t, err)
	return run.Key{Run: run.ID(strings.ToLower(id.String())), Attempt: 1, Dispatch: 1}
}

func (b *bench) definition(t testing.TB, scripts ...string) run.Definition {
	t.Helper()
	def := run.Definition{
		Key: newKey(t), RunName: "test", RunGroup: "/test/docker", RunCounter: 1, Task: "task",
		Image: b.image, PullPolicy: run.PullNever, Shell: run.DefaultShell(), Grace: run.StopGrace,
	}
	for _, s := range scripts {
		def.Steps = append(def.Steps, run.StepDef{Script: s, When: run.WhenOnSuccess})
	}
	return def
}

func launchAt(first int64) func() (int64, error) {
	return func() (int64, error) { return first, nil }
}

func TestDriver_Start(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	h, err := b.driver.Start(t.Context(), executor.Task{
		Definition: b.definition(t, "echo hello; id; pwd; exit 3"), Log: func(l string) { t.Log(l) }, Launch: launchAt(3),
	})
	require.NoError(t, err)
	for f, err := range h.Events(t.Context(), 3) {
		require.NoError(t, err)
		t.Logf("%d %s %q", f.N, f.Kind, f.Data)
	}
	for f, err := range h.Events(t.Context(), 4) {
		require.NoError(t, err)
		t.Logf("%d %s %q", f.N, f.Kind, f.Data)
	}
	require.NoError(t, h.Remove(t.Context()))
	require.NoError(t, h.Remove(t.Context()))
}
