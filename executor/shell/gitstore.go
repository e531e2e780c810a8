package shell

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/gitstore"
	"github.com/drover-run/drover/executor/shim/checkout"
	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

// storeGrace is how long an update has to end after SIGTERM.
const storeGrace = 10 * time.Second

// gitStores has the object stores of checkouts as directories of the host, for the
// driver's user. Tasks have the same user and could change them; checkouts do not depend
// on that: see package checkout.
type gitStores struct {
	dir  string
	shim string
	env  []string
}

var _ gitstore.Backend = gitStores{}

func (s gitStores) path(name string) string { return filepath.Join(s.dir, name) }

// Update implements gitstore.Backend. Git runs with the variables of the driver, and none
// of the task.
func (s gitStores) Update(ctx context.Context, name string, r checkout.StoreRequest) (checkout.StoreResult, error) {
	var result checkout.StoreResult
	r.Dir = s.path(name)
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return result, run.Errorf(run.CodeUnavailable, "create the directory of the object stores: %w", err)
	}
	text, err := json.Marshal(r) //nolint:gosec // for the stdin of the update alone
	if err != nil {
		return result, fmt.Errorf("encode the request: %w", err)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, s.shim, checkout.StoreCommand)
	cmd.Dir, cmd.Env = s.dir, s.env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), &stdout, &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = storeGrace
	if err := cmd.Run(); err != nil {
		return result, run.Errorf(run.CodeUnavailable, "%s", truncate.Tail(strings.TrimSpace(stderr.String())+" ("+err.Error()+")", maxStoreMessage))
	}
	if err := json.Unmarshal(stdout.Bytes(), &result); err != nil {
		return result, run.Errorf(run.CodeInternal, "read the result: %w", err)
	}
	return result, nil
}

// prepareStores updates the stores of a task, and returns their directories by
// repository.
func (d *Driver) prepareStores(ctx context.Context, task executor.Task) map[string]string {
	log := task.Log
	if log == nil {
		log = func(string) {}
	}
	stores := d.prepare.Prepare(ctx, &task.Definition, log)
	for repository, name := range stores {
		stores[repository] = d.stores.path(name)
	}
	return stores
}

// maxStoreMessage is how many bytes of what an update prints are reported.
const maxStoreMessage = 1000

// List implements gitstore.Backend.
func (s gitStores) List(context.Context) ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, run.Errorf(run.CodeUnavailable, "list the object stores: %w", err)
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name()
	}
	return names, nil
}

// Remove implements gitstore.Backend. A checkout that reads the store fetches the rest
// from the repository.
func (s gitStores) Remove(_ context.Context, name string) error {
	if err := os.RemoveAll(s.path(name)); err != nil {
		return run.Errorf(run.CodeUnavailable, "remove the object store: %w", err)
	}
	return nil
}
