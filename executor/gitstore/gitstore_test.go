package gitstore_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drover-run/drover/executor/executortest"
	"github.com/drover-run/drover/executor/gitstore"
	"github.com/drover-run/drover/executor/shim/checkout"
	"github.com/drover-run/drover/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// directories is a backend with stores in a directory.
type directories struct {
	dir  string
	busy string // the name of a store that is in use
}

func (d *directories) Update(ctx context.Context, name string, r checkout.StoreRequest) (checkout.StoreResult, error) {
	r.Dir = filepath.Join(d.dir, name)
	var stderr bytes.Buffer
	result, err := checkout.UpdateStore(ctx, r, os.Environ(), &stderr)
	if err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.String())
	}
	return result, err
}

func (d *directories) List(context.Context) ([]string, error) {
	entries, err := os.ReadDir(d.dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (d *directories) Remove(_ context.Context, name string) error {
	if name == d.busy {
		return run.Errorf(run.CodeConflict, "the store is in use")
	}
	return os.RemoveAll(filepath.Join(d.dir, name))
}

// bench has repositories and the stores of an executor.
type bench struct {
	*testing.T
	backend *directories
	options gitstore.Options
	stores  *gitstore.Stores
	log     []string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{
		T: t, backend: &directories{dir: t.TempDir()},
		options: gitstore.Options{MaxBytes: 1 << 30, IndexFile: filepath.Join(t.TempDir(), "index.json")},
	}
	b.restart()
	return b
}

func (b *bench) restart() {
	b.stores = gitstore.New(b.backend, b.options, slog.New(slog.DiscardHandler))
}

// prepare prepares a task of a group with checkouts of repositories, and returns the
// names of its stores.
func (b *bench) prepare(group string, repositories ...string) []string {
	b.Helper()
	d := run.Definition{RunGroup: group}
	for _, repository := range repositories {
		d.Steps = append(d.Steps, run.StepDef{Checkout: &run.Checkout{Repository: repository, Reuse: true}})
	}
	return b.prepareTask(&d)
}

func (b *bench) prepareTask(d *run.Definition) []string {
	b.Helper()
	var names []string
	for repository, name := range b.stores.Prepare(b.Context(), d, func(line string) { b.log = append(b.log, line) }) {
		require.Equal(b, gitstore.Name(d.RunGroup, repository), name)
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (b *bench) kept() []string {
	b.Helper()
	names, err := b.backend.List(b.Context())
	require.NoError(b, err)
	return names
}

func TestStores_Prepare(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	repository := "file://" + executortest.NewRepository(t)
	first := b.prepare("/project/42/branch/main", repository)
	require.Len(t, first, 1)
	require.Equal(t, first, b.kept())
	require.Equal(t, first, b.prepare("/project/42", repository, repository))
	require.NotEqual(t, first, b.prepare("/project/43", repository), "another tenant")
	require.Len(t, b.kept(), 2)
	require.Contains(t, b.log[0], "updated the object store of "+repository)

	// Tasks without a store.
	off := false
	checksOut := func(c run.Checkout) run.Definition {
		return run.Definition{RunGroup: "/project/42", Steps: []run.StepDef{{Script: "true"}, {Checkout: &c}}}
	}
	privileged := checksOut(run.Checkout{Repository: repository, Reuse: true})
	privileged.Privileged = true
	for name, d := range map[string]run.Definition{
		"without reuse": checksOut(run.Checkout{Repository: repository, Clean: &off}),
		"ssh":           checksOut(run.Checkout{Repository: "git@git.example.com:a/b.git", Reuse: true}),
		"privileged":    privileged,
	} {
		require.Empty(t, b.prepareTask(&d), name)
	}
	b.options.MaxBytes = 0
	b.restart()
	require.Empty(t, b.prepare("/project/42", repository))
}

// A store that cannot be updated with the credentials of a task is not for that task.
func TestStores_Prepare_fails(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	repository := executortest.NewRepository(t)
	other := "file://" + executortest.NewRepository(t)
	require.Len(t, b.prepare("/project/42", "file://"+repository), 1)
	require.NoError(t, os.Rename(repository, repository+".gone"))
	require.Equal(t, []string{gitstore.Name("/project/42", other)}, b.prepare("/project/42", "file://"+repository, other))
	require.Contains(t, strings.Join(b.log, "\n"), "the object store of file://"+repository+" is not used: ")
	require.NoError(t, os.Rename(repository+".gone", repository))
	require.Len(t, b.prepare("/project/42", "file://"+repository), 1)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d := run.Definition{RunGroup: "/project/42", Steps: []run.StepDef{{Checkout: &run.Checkout{Repository: other, Reuse: true}}}}
	require.Empty(t, b.stores.Prepare(ctx, &d, func(string) {}))
}

// The least recently used stores are removed, also those of an earlier process.
func TestStores_size(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var names, repositories []string
	for range 4 {
		repository := "file://" + executortest.NewRepository(t)
		repositories = append(repositories, repository)
		names = append(names, b.prepare("/project/42", repository)...)
	}
	require.Len(t, b.kept(), 4)
	size := b.size(names[3])

	b.prepare("/project/42", repositories[0]) // the oldest is now the second
	b.options.MaxBytes = 3*size + size/2
	b.restart()
	b.prepare("/project/42", repositories[3])
	require.ElementsMatch(t, []string{names[0], names[2], names[3]}, b.kept())

	// A store in use stays, and the next one is removed.
	b.backend.busy = names[2]
	b.prepare("/project/42", repositories[1])
	require.ElementsMatch(t, []string{names[1], names[2], names[3]}, b.kept())

	// Without the file nothing is known about the other stores: they go first.
	b.backend.busy = ""
	require.NoError(t, os.WriteFile(b.options.IndexFile, []byte("{"), 0o600))
	b.options.MaxBytes = size / 2
	b.restart()
	b.prepare("/project/42", repositories[2])
	require.Equal(t, []string{names[2]}, b.kept(), "the one that was just updated stays")
}

func (b *bench) size(name string) int64 {
	b.Helper()
	var size int64
	require.NoError(b, filepath.WalkDir(filepath.Join(b.backend.dir, name), func(_ string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			info, err := entry.Info()
			require.NoError(b, err)
			size += info.Size()
		}
		return err
	}))
	return size
}

func TestName(t *testing.T) {
	t.Parallel()
	const repository = "https://git.example.com/a.git"
	name := gitstore.Name("/project/42/branch/main", repository)
	require.Regexp(t, "^[0-9a-f]{32}$", name)
	require.Equal(t, name, gitstore.Name("/project/42", repository))
	for _, group := range []string{"/project/421", "/project", "/project/4/2", "/pro/ject/42"} {
		require.NotEqual(t, name, gitstore.Name(group, repository), group)
	}
	require.NotEqual(t, name, gitstore.Name("/project/42", repository+"x"))
}
