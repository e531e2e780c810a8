package docker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/drover-run/drover/executor/gitstore"
	"github.com/drover-run/drover/executor/shim/checkout"
	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

const (
	// storeDir has the object stores of checkouts in the containers that use them.
	storeDir = "/.drover/git"
	// maxStoreMessage is how many bytes of what an update prints are reported.
	maxStoreMessage = 1000
)

// gitStores has the object stores of checkouts as volumes. A container of the executor's
// own image writes to them; helper containers of tasks mount them read-only.
type gitStores struct{ driver *Driver }

var _ gitstore.Backend = gitStores{}

// prefix begins the names of the volumes of this executor.
func (s gitStores) prefix() string {
	sum := sha256.Sum256([]byte(s.driver.options.ExecutorID))
	return s.driver.options.Prefix + "-git-" + hex.EncodeToString(sum[:])[:digestLength] + "-"
}

// mount returns the mount of a store.
func (s gitStores) mount(name string, readOnly bool) mount.Mount {
	return mount.Mount{
		Type: mount.TypeVolume, Source: s.prefix() + name, Target: storeDir + "/" + name, ReadOnly: readOnly,
		VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: map[string]string{
			s.driver.options.label("executor"): s.driver.options.ExecutorID,
			s.driver.options.label("role"):     roleGitStore,
		}},
	}
}

// Update implements gitstore.Backend. The image of the executor and the volume of the
// shim must be present.
func (s gitStores) Update(ctx context.Context, name string, r checkout.StoreRequest) (checkout.StoreResult, error) {
	var result checkout.StoreResult
	d := s.driver
	if d.options.CheckoutImage == "" {
		return result, run.Errorf(run.CodeInvalid, "this executor has no image with git of its own (executor.checkout_image)")
	}
	if _, err := d.ensureImage(ctx, run.Definition{PullPolicy: run.PullIfNotPresent}, d.options.CheckoutImage, nil, func(string) {}); err != nil {
		return result, err
	}
	r.Dir = storeDir + "/" + name
	text, err := json.Marshal(r) //nolint:gosec // for the stdin of the update alone
	if err != nil {
		return result, fmt.Errorf("encode the request: %w", err)
	}
	stdout, err := s.runContainer(ctx, s.mount(name, false), text)
	if err != nil {
		return result, err
	}
	if err := json.Unmarshal(stdout, &result); err != nil {
		return result, run.Errorf(run.CodeInternal, "read the result: %w", err)
	}
	return result, nil
}

// runContainer runs the update in a container, and returns what it writes to stdout. The
// daemon removes the container, also if this process ends before it.
func (s gitStores) runContainer(ctx context.Context, store mount.Mount, request []byte) ([]byte, error) {
	d := s.driver
	config := &container.Config{
		Image: d.options.CheckoutImage, User: "0:0", Entrypoint: []string{toolDir + "/" + shimFile, checkout.StoreCommand}, WorkingDir: "/",
		OpenStdin: true, StdinOnce: true, AttachStdin: true, AttachStdout: true, AttachStderr: true,
		Labels: store.VolumeOptions.Labels, Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
	}
	host := &container.HostConfig{
		AutoRemove: true, NetworkMode: container.NetworkMode(d.options.Network), LogConfig: container.LogConfig{Type: "none"},
		Mounts: []mount.Mount{d.shimMount(true), store},
	}
	id, err := d.create(ctx, config, host, nil, nil, "")
	if err != nil {
		return nil, refused(err, "create the container that updates the object store")
	}
	started := false
	defer func() {
		if !started || ctx.Err() != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
			defer cancel()
			if err := d.removeContainer(ctx, id); err != nil {
				d.log.WarnContext(ctx, "failed to remove the container of an object store", "error", err)
			}
		}
	}()
	streams, err := d.client.ContainerAttach(ctx, id, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return nil, daemonError(err, "attach to the container of the object store")
	}
	defer streams.Close()
	defer context.AfterFunc(ctx, streams.Close)()
	ended := wait(ctx, d.client, id, container.WaitConditionNextExit)
	if err := d.start(ctx, id); err != nil {
		return nil, refused(err, "start the container of the object store")
	}
	started = true
	if _, err := streams.Conn.Write(request); err != nil {
		return nil, daemonError(err, "send the request for the object store")
	}
	if err := streams.CloseWrite(); err != nil {
		return nil, daemonError(err, "send the request for the object store")
	}
	var stdout, stderr bytes.Buffer
	if _, err := stdcopy.StdCopy(&stdout, &stderr, streams.Reader); err != nil {
		return nil, daemonError(err, "read the output of the object store")
	}
	end := <-ended
	switch {
	case end.err != nil:
		return nil, daemonError(end.err, "wait for the end of the update")
	case end.code != 0:
		return nil, run.Errorf(run.CodeUnavailable, "%s (exit code %d)", truncate.Tail(strings.TrimSpace(stderr.String()), maxStoreMessage), end.code)
	}
	return stdout.Bytes(), nil
}

// List implements gitstore.Backend.
func (s gitStores) List(ctx context.Context) ([]string, error) {
	d := s.driver
	found, err := d.client.VolumeList(ctx, volume.ListOptions{Filters: filters.NewArgs(
		filters.Arg("label", d.options.label("role")+"="+roleGitStore),
		filters.Arg("label", d.options.label("executor")+"="+d.options.ExecutorID))})
	if err != nil {
		return nil, daemonError(err, "list the object stores")
	}
	var names []string
	for _, v := range found.Volumes {
		if name, ok := strings.CutPrefix(v.Name, s.prefix()); ok {
			names = append(names, name)
		}
	}
	return names, nil
}

// Remove implements gitstore.Backend.
func (s gitStores) Remove(ctx context.Context, name string) error {
	err := s.driver.client.VolumeRemove(ctx, s.prefix()+name, false)
	switch {
	case err == nil, cerrdefs.IsNotFound(err):
		return nil
	case cerrdefs.IsConflict(err):
		return run.Errorf(run.CodeConflict, "the object store is in use")
	}
	return daemonError(err, "remove the object store")
}
