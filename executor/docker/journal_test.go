package docker_test

import (
	"archive/tar"
	"bytes"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/docker"
	"github.com/drover-run/drover/executor/shim/journal"
	"github.com/drover-run/drover/run"
)

const taskDir = "/.drover/task"

// plantable is the journal of a successful task, as an archive for the directory of the shim
// in a container, and one for its root.
type plantable struct{ forShim, forRoot []byte }

func (b *bench) plantable(t *testing.T) plantable {
	t.Helper()
	h := b.start(t, b.definition(t, "echo forged"))
	follow(t, h, 1)
	from, err := h.CopyFrom(t.Context(), path.Join(taskDir, journal.File))
	require.NoError(t, err)
	p := plantable{forShim: readAll(t, from)}
	require.NoError(t, h.Remove(t.Context()))
	r := tar.NewReader(bytes.NewReader(p.forShim))
	header, err := r.Next()
	require.NoError(t, err)
	header.Name = strings.TrimPrefix(path.Join(taskDir, journal.File), "/")
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	require.NoError(t, w.WriteHeader(header))
	_, err = io.Copy(w, r)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	p.forRoot = archive.Bytes()
	return p
}

// driverPlanting returns a driver before whose first request of a kind for a container the
// journal is put into that container.
func (b *bench) driverPlanting(t *testing.T, p plantable, method, suffix string) executor.Driver {
	t.Helper()
	var once sync.Once
	return b.newDriverSeen(t, func(r *http.Request) {
		_, rest, found := strings.Cut(r.URL.Path, "/containers/")
		id, of, _ := strings.Cut(rest, "/")
		if found && r.Method == method && of == suffix && (of != "archive" || r.URL.Query().Get("path") == path.Join(taskDir, journal.File)) {
			once.Do(func() {
				require.NoError(t, b.cli.CopyToContainer(t.Context(), id, taskDir, bytes.NewReader(p.forShim), container.CopyToContainerOptions{}))
			})
		}
	})
}

const planted = "the container had a journal before its shim began"

// TestDriver_Start_with_a_journal_of_the_image has an image by which steps would seem to have
// run.
func TestDriver_Start_with_a_journal_of_the_image(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	d := b.definition(t, "echo ran")
	d.Image = b.imageWith(t, bytes.NewReader(b.plantable(t).forRoot))
	require.ErrorContains(t, b.refused(t, d), planted)
}

// TestDriver_Start_leaves_a_container_with_a_journal refuses a container that it has created, and
// leaves it. No call takes its journal for a result, and the next one replaces it.
func TestDriver_Start_leaves_a_container_with_a_journal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	d := b.definition(t, "echo ran")
	_, err := b.driverPlanting(t, b.plantable(t), http.MethodHead, "archive").Start(t.Context(), executor.Task{Definition: d, Launch: launchAt(1), Keep: true})
	require.Equal(t, run.CodeInvalid, run.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, planted)
	left, err := b.driver.Attach(t.Context(), d.Key)
	require.NoError(t, err)
	err = followToError(t, left)
	require.Equal(t, run.CodeNotFound, run.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "was never started")
	h, err := b.driver.Start(t.Context(), executor.Task{Definition: d, Launch: launchAt(1), Resume: true})
	require.NoError(t, err)
	b.removeAfter(t, h)
	require.Equal(t, "ran\n", follow(t, h, 1).output)
}

// TestDriver_Start_where_the_shim_finds_a_journal puts a journal into the container at the last
// moment. The shim runs nothing, and no process takes that journal for its result.
func TestDriver_Start_where_the_shim_finds_a_journal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	d := b.definition(t, "echo ran")
	h, err := b.driverPlanting(t, b.plantable(t), http.MethodPost, "start").Start(t.Context(), executor.Task{Definition: d, Launch: launchAt(1)})
	require.NoError(t, err)
	b.removeAfter(t, h)
	attached, err := b.newDriver(t, docker.Options{}).Attach(t.Context(), d.Key)
	require.NoError(t, err)
	again, err := b.newDriver(t, docker.Options{}).Start(t.Context(), executor.Task{Definition: d, Resume: true, Launch: launchAt(1)})
	require.NoError(t, err)
	for _, h := range []executor.Handle{h, attached, again} {
		err := followToError(t, h)
		require.Equal(t, run.CodeNotFound, run.CodeOf(err), "%v", err)
		require.Equal(t, run.CauseStart, executor.CauseOf(err))
		require.ErrorContains(t, err, planted)
	}
}
