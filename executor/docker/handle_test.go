package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/docker"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

func TestHandle_Events_reports_an_unexpected_end(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	begun := func(t *testing.T, h executor.Handle) {
		t.Helper()
		for f, err := range h.Events(t.Context(), 1) {
			require.NoError(t, err)
			if f.Kind == run.FrameOutput {
				return
			}
		}
	}
	t.Run("killed from outside", func(t *testing.T) {
		t.Parallel()
		def := b.definition(t, "echo begun; sleep 60")
		h := b.start(t, def)
		begun(t, h)
		require.NoError(t, b.cli.ContainerStop(t.Context(), "drover-"+def.Key.String(), container.StopOptions{}))
		err := followToError(t, h)
		require.Equal(t, run.CodeNotFound, run.CodeOf(err))
		require.ErrorContains(t, err, "killed from outside")
		_, err = b.driver.Start(t.Context(), executor.Task{Definition: def, Resume: true, Launch: func() (int64, error) {
			t.Error("launched again")
			return 1, nil
		}})
		require.NoError(t, err, "the steps have begun: the driver only follows them")
	})
	t.Run("removed from outside", func(t *testing.T) {
		t.Parallel()
		def := b.definition(t, "echo begun; sleep 60")
		h := b.start(t, def)
		begun(t, h)
		require.NoError(t, b.cli.ContainerRemove(t.Context(), "drover-"+def.Key.String(), container.RemoveOptions{Force: true, RemoveVolumes: true}))
		err := followToError(t, h)
		require.Equal(t, run.CodeNotFound, run.CodeOf(err))
		require.ErrorContains(t, err, "removed")
	})
	t.Run("while it is followed", func(t *testing.T) {
		t.Parallel()
		def := b.definition(t, "echo begun; sleep 60")
		h := b.start(t, def)
		var last error
		for f, err := range h.Events(t.Context(), 1) {
			if last = err; err == nil && f.Kind == run.FrameOutput {
				require.NoError(t, b.cli.ContainerKill(t.Context(), "drover-"+def.Key.String(), "KILL"))
			}
		}
		require.Equal(t, run.CodeNotFound, run.CodeOf(last))
	})
}

func TestHandle_Events_continues(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	t.Run("for several followers at once", func(t *testing.T) {
		t.Parallel()
		h := b.start(t, b.definition(t, "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.1; done"))
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				var output strings.Builder
				for f, err := range h.Events(t.Context(), 1) {
					if err != nil {
						t.Error(err)
					}
					output.Write(f.Data)
				}
				if got := output.String(); got != "1\n2\n3\n4\n5\n6\n7\n8\n" {
					t.Errorf("a follower got %q", got)
				}
			})
		}
		group.Wait()
	})
	t.Run("after its caller stopped", func(t *testing.T) {
		t.Parallel()
		def := b.definition(t, "for i in 1 2 3 4 5 6; do echo $i; sleep 0.2; done")
		h := b.start(t, def)
		next := int64(1)
		var output string
		for len(output) < 12 {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			for f, err := range h.Events(ctx, next) {
				if err != nil {
					require.Equal(t, run.CodeTimeout, run.CodeOf(err), "%v", err)
					break
				}
				require.Equal(t, next, f.N)
				next++
				output += string(f.Data)
			}
			cancel()
		}
		require.Equal(t, "1\n2\n3\n4\n5\n6\n", output)
	})
	t.Run("after its caller stopped at any moment", func(t *testing.T) {
		t.Parallel()
		h := b.start(t, b.definition(t, "sleep 60"))
		for after := time.Duration(0); after < 50*time.Millisecond; after += time.Millisecond {
			ctx, cancel := context.WithTimeout(t.Context(), after) //nolint:forbidigo // ends the call
			var last error
			for _, err := range h.Events(ctx, 1) {
				last = err
			}
			cancel()
			require.Equal(t, run.CodeTimeout, run.CodeOf(last), "after %s: %v", after, last)
		}
	})
	t.Run("from the journal of a container that has ended", func(t *testing.T) {
		t.Parallel()
		def := b.definition(t, "echo once")
		h := b.start(t, def)
		s := follow(t, h, 1)
		require.NoError(t, h.Stop(t.Context(), time.Second), "the stop acknowledges the end")
		testenv.Await(t, func() (bool, string) {
			c, err := b.cli.ContainerInspect(t.Context(), "drover-"+def.Key.String())
			require.NoError(t, err)
			return !c.State.Running, c.State.Status
		})
		again, err := b.newDriver(t, docker.Options{}).Attach(t.Context(), def.Key)
		require.NoError(t, err)
		require.Len(t, follow(t, again, 1).frames, len(s.frames))
		require.Equal(t, "once\n", follow(t, again, 2).output)
		require.NoError(t, h.Stop(t.Context(), time.Second))
	})
}

func TestHandle_Stop_honors_its_grace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.definition(t, "trap '' TERM; echo begun; while :; do sleep 1; done")
	def.Grace = time.Hour
	h := b.start(t, def)
	var result *run.TaskResult
	for f, err := range h.Events(t.Context(), 1) {
		require.NoError(t, err)
		if f.Kind == run.FrameOutput {
			require.NoError(t, h.Stop(t.Context(), 500*time.Millisecond))
		}
		result = f.Result
	}
	require.Equal(t, run.StatusStopped, result.Status)
}

func TestHandle_Copy(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.definition(t, "mkdir /in; echo ready; while ! [ -f /in/go ]; do sleep 0.05; done; cat /in/go; echo out >/out")
	h := b.start(t, def)
	var output string
	for f, err := range h.Events(t.Context(), 1) {
		require.NoError(t, err)
		if output += string(f.Data); f.Kind == run.FrameOutput && output == "ready\n" {
			require.NoError(t, h.CopyTo(t.Context(), "/in", fileNamed(t, "go")))
		}
	}
	require.Equal(t, "ready\ngo\n", output)
	content, err := h.CopyFrom(t.Context(), "/out")
	require.NoError(t, err)
	r := tar.NewReader(bytes.NewReader(readAll(t, content)))
	header, err := r.Next()
	require.NoError(t, err)
	require.Equal(t, "out", header.Name)
	_, err = h.CopyFrom(t.Context(), "/none")
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
}

// TestHandle_Events_beside_a_stuck_reader runs a first follower that holds its
// connection and does not read, which blocks the daemon's copying of streams. A
// second follower still gets everything, and so does the first one later.
func TestHandle_Events_beside_a_stuck_reader(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.definition(t, "for i in 1 2 3 4 5; do yes 0123456789 | head -c 1000000; sleep 0.2; done")
	stuck := b.start(t, def)
	other := b.newDriver(t, docker.Options{})
	other.SetSilence(200 * time.Millisecond)
	h, err := other.Attach(t.Context(), def.Key)
	require.NoError(t, err)
	require.Len(t, follow(t, h, 1).output, 5_000_000)
	require.Len(t, follow(t, stuck, 1).output, 5_000_000)
}

// TestHandle_Events_where_the_daemon_does_not_attach starts a follower after a
// first one that does not read has blocked the streams: the daemon does not
// answer a second attachment then.
func TestHandle_Events_where_the_daemon_does_not_attach(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.definition(t, "yes 0123456789 | head -c 5000000; echo >/printed; while ! [ -f /tmp/go ]; do sleep 0.05; done; echo more")
	stuck := b.start(t, def)
	testenv.Await(t, func() (bool, string) {
		content, err := stuck.CopyFrom(t.Context(), "/printed")
		if err != nil {
			return false, err.Error()
		}
		return content.Close() == nil, "closing"
	})
	other := b.newDriver(t, docker.Options{})
	other.SetSilence(200 * time.Millisecond)
	h, err := other.Attach(t.Context(), def.Key)
	require.NoError(t, err)
	output := 0
	for f, err := range h.Events(t.Context(), 1) {
		require.NoError(t, err)
		if output += len(f.Data); f.Kind == run.FrameOutput && output == 5_000_000 {
			require.NoError(t, stuck.CopyTo(t.Context(), "/tmp", fileNamed(t, "go")))
		}
	}
	require.Equal(t, 5_000_000+len("more\n"), output)
	require.Len(t, follow(t, stuck, 1).output, output)
}

// fileNamed packs a file that holds its name.
func fileNamed(t testing.TB, name string) io.Reader {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(name)) + 1}))
	_, err := io.WriteString(w, name+"\n")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return &archive
}

// TestHandle_Events_where_nothing_more_can_run attaches to a container at its
// limit of processes, so that no second shim process can run in it.
func TestHandle_Events_where_nothing_more_can_run(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	def := b.definition(t, `mkfifo /pause
		while (sleep 600 &) 2>/dev/null; do :; done
		echo full; n=0; until [ -e /go ] || [ $((n += 1)) -gt 300 ]; do read -t 1 line <>/pause || :; done; [ -e /go ]; echo done`)
	def.Resources.PIDs = 10
	h := b.start(t, def)
	for f, err := range h.Events(t.Context(), 1) {
		require.NoError(t, err)
		if string(f.Data) == "full\n" {
			break
		}
	}
	// The step ends only after the driver said that it read through the archive.
	var once sync.Once
	log := writerFunc(func(line []byte) (int, error) {
		if bytes.Contains(line, []byte("read a journal through the archive")) {
			once.Do(func() {
				if err := b.cli.CopyToContainer(t.Context(), "drover-"+def.Key.String(), "/", fileNamed(t, "go"), container.CopyToContainerOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
		return len(line), nil
	})
	again, err := b.newDriver(t, docker.Options{Logger: slog.New(slog.NewTextHandler(log, nil))}).Attach(t.Context(), def.Key)
	require.NoError(t, err)
	s := follow(t, again, 1)
	require.Contains(t, s.output, "full\ndone\n")
	require.Equal(t, run.StatusSuccess, s.result.Status)
}

// writerFunc is a writer of log lines.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
