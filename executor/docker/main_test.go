package docker_test

import (
	"context"
	"crypto/rand"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/docker"
	"github.com/drover-run/drover/executor/executortest"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

func TestMain(m *testing.M) {
	if order := os.Getenv(crashVariable); order != "" {
		os.Exit(crashProcess(order))
	}
	executortest.Child(openConformance)
	testenv.Parallel(2) // the tests mostly wait for the daemon
	goleak.VerifyTestMain(m)
}

// bench holds the client, the driver and the image of a test.
type bench struct {
	cli    *client.Client
	image  string
	id     string // of the executor
	driver *docker.Driver
}

func newBench(t testing.TB) *bench {
	t.Helper()
	cli := testenv.RequireDocker(t)
	b := &bench{cli: cli, image: testenv.BusyboxImage(t, cli), id: "test-" + newID(t)}
	b.driver = b.newDriver(t, docker.Options{})
	return b
}

// newDriver returns a driver that acts like another process of the same
// executor.
func (b *bench) newDriver(t testing.TB, options docker.Options) *docker.Driver {
	t.Helper()
	options.ShimPath = testenv.BuildShim(t)
	if options.Client == nil {
		options.Client = b.cli
	}
	if options.ExecutorID == "" {
		options.ExecutorID = b.id
	}
	d, err := docker.New(options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func (b *bench) definition(t testing.TB, scripts ...string) run.Definition {
	t.Helper()
	def := run.Definition{
		Key: run.Key{Run: run.ID(newID(t)), Task: 1, Attempt: 1, Dispatch: 1}, RunName: "test", RunGroup: "/test/docker",
		RunCounter: 1, Task: "task", Image: b.image, PullPolicy: run.PullNever, Shell: run.DefaultShell(), Grace: 2 * time.Second,
	}
	for _, s := range scripts {
		def.Steps = append(def.Steps, run.StepDef{Script: s, When: run.WhenOnSuccess})
	}
	return def
}

// start starts a task whose environment is removed at the end of the test.
func (b *bench) start(t testing.TB, def run.Definition) executor.Handle {
	t.Helper()
	h, err := b.driver.Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1)})
	require.NoError(t, err)
	b.removeAfter(t, h)
	return h
}

func (b *bench) removeAfter(t testing.TB, h executor.Handle) {
	t.Helper()
	t.Cleanup(func() { require.NoError(t, h.Remove(context.WithoutCancel(t.Context()))) })
}

// finish runs a task to its end.
func (b *bench) finish(t testing.TB, def run.Definition) taskFrames {
	t.Helper()
	return follow(t, b.start(t, def), 1)
}

// taskFrames is the content of the frames of a task.
type taskFrames struct {
	output string // of all steps
	result *run.TaskResult
	frames []run.Frame
}

// follow follows a task to its end and returns its frames.
func follow(t testing.TB, h executor.Handle, from int64) taskFrames {
	t.Helper()
	var s taskFrames
	for f, err := range h.Events(t.Context(), from) {
		require.NoError(t, err)
		require.Equal(t, from+int64(len(s.frames)), f.N, "frames have no gaps")
		s.frames = append(s.frames, f)
		if f.Kind == run.FrameOutput {
			s.output += string(f.Data)
		}
		s.result = f.Result
	}
	require.NotNil(t, s.result, "the last frame has the result")
	return s
}

// followToError follows a task whose environment ends unexpectedly, and returns the
// error.
func followToError(t testing.TB, h executor.Handle) error {
	t.Helper()
	for f, err := range h.Events(t.Context(), 1) {
		if err != nil {
			return err
		}
		require.NotEqual(t, run.FrameTaskEnd, f.Kind)
	}
	require.Fail(t, "the frames ended without an error")
	return nil
}

// setupLog collects the lines of a setup log.
type setupLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *setupLog) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *setupLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// requireNothingLeft fails if the daemon still has any object of the executor.
func (b *bench) requireNothingLeft(t testing.TB, volumes ...string) {
	t.Helper()
	left, err := b.cli.ContainerList(t.Context(), container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", "drover.executor="+b.id)),
	})
	require.NoError(t, err)
	require.Empty(t, left)
	networks, err := b.cli.NetworkList(t.Context(), network.ListOptions{Filters: filters.NewArgs(filters.Arg("label", "drover.executor="+b.id))})
	require.NoError(t, err)
	require.Empty(t, networks)
	all, err := b.cli.VolumeList(t.Context(), volume.ListOptions{})
	require.NoError(t, err)
	for _, v := range all.Volumes {
		require.False(t, slices.Contains(volumes, v.Name), "volume %s is left", v.Name)
	}
}

// anonymousVolumes returns the anonymous volumes of a task's containers.
func (b *bench) anonymousVolumes(t testing.TB, key run.Key) []string {
	t.Helper()
	found, err := b.cli.ContainerList(t.Context(), container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", "drover.key="+key.String())),
	})
	require.NoError(t, err)
	var names []string
	for _, c := range found {
		for _, m := range c.Mounts {
			if m.Name != "" && !strings.HasPrefix(m.Name, "drover-") {
				names = append(names, m.Name)
			}
		}
	}
	require.NotEmpty(t, names)
	return names
}

func launchAt(first int64) func() (int64, error) {
	return func() (int64, error) { return first, nil }
}

func newID(t testing.TB) string {
	t.Helper()
	id, err := ulid.New(ulid.Now(), rand.Reader)
	require.NoError(t, err)
	return strings.ToLower(id.String())
}

func readAll(t testing.TB, r io.ReadCloser) []byte {
	t.Helper()
	content, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	return content
}

func (b *bench) containersNamed(t testing.TB, prefix string) []string {
	t.Helper()
	found, err := b.cli.ContainerList(t.Context(), container.ListOptions{All: true})
	require.NoError(t, err)
	var names []string
	for _, c := range found {
		for _, name := range c.Names {
			if strings.HasPrefix(name, "/"+prefix) {
				names = append(names, name)
			}
		}
	}
	return names
}

func (b *bench) volumesNamed(t testing.TB, prefix string) []string {
	t.Helper()
	found, err := b.cli.VolumeList(t.Context(), volume.ListOptions{})
	require.NoError(t, err)
	var names []string
	for _, v := range found.Volumes {
		if strings.HasPrefix(v.Name, prefix) {
			names = append(names, v.Name)
		}
	}
	return names
}

// variant builds an image from the busybox image and Dockerfile instructions.
func (b *bench) variant(t testing.TB, changes ...string) string {
	t.Helper()
	return testenv.ImageVariant(t, b.cli, b.image, changes...)
}

// removeImageAfter removes an image at the end of the test.
func (b *bench) removeImageAfter(t testing.TB, name string) {
	t.Helper()
	t.Cleanup(func() {
		_, err := b.cli.ImageRemove(context.WithoutCancel(t.Context()), name, image.RemoveOptions{Force: true})
		require.NoError(t, err)
	})
}
