package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/client"
	"github.com/moby/sys/mountinfo"

	"github.com/drover-run/drover/run"
)

// dataRootKept is how long the answer of the daemon is kept where its data are: it costs the
// daemon tens of milliseconds, and changes with a restart of the daemon alone.
const dataRootKept = time.Minute

// daemonData is the directory of the daemon's data, which is asked for when it is needed. Methods
// are safe for concurrent use.
type daemonData struct {
	mu    sync.Mutex
	root  string
	asked time.Time
}

// of returns the directory of the daemon's data. The error has CodeInvalid if the executor does
// not see it: it sees other files than the daemon then, and cannot look at the paths of tasks.
func (d *daemonData) of(ctx context.Context, c client.SystemAPIClient) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.root != "" && time.Since(d.asked) < dataRootKept {
		return d.root, nil
	}
	info, err := c.Info(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return "", daemonError(err, "ask the docker daemon for its data root")
	case err != nil: // no reason of it lies in the task
		return "", run.Errorf(run.CodeUnavailable, "ask the docker daemon for its data root: %w", err)
	case !path.IsAbs(info.DockerRootDir):
		return "", run.Errorf(run.CodeInvalid, "the docker daemon does not say where its data are, which no task may have: paths of the host are not possible with it")
	}
	if _, err := os.Lstat(info.DockerRootDir); errors.Is(err, fs.ErrNotExist) {
		return "", run.Errorf(run.CodeInvalid,
			"the executor does not see the data root of the docker daemon (%s): it runs in a container, or the daemon in a machine of its own, so that it cannot look at paths of the host; run the executor on the daemon's host",
			info.DockerRootDir)
	}
	d.root, d.asked = info.DockerRootDir, time.Now()
	return d.root, nil
}

// place is where a file is, the same for all paths that lead to it: a file system may be mounted
// at several paths, wholly or in part.
type place struct{ device, path string }

// placeOf returns the place of a path without links.
func placeOf(mounts []*mountinfo.Info, p string) (place, error) {
	var of *mountinfo.Info
	for _, m := range mounts { // of several at one path, the last one covers the others
		if within(p, m.Mountpoint) && (of == nil || len(m.Mountpoint) >= len(of.Mountpoint)) {
			of = m
		}
	}
	if of == nil {
		return place{}, fmt.Errorf("no file system is known for %s", p)
	}
	return place{fmt.Sprintf("%d:%d", of.Major, of.Minor), path.Join(of.Root, strings.TrimPrefix(p, of.Mountpoint))}, nil
}

// overlap reports whether one of two paths without links is, by any name, the other or below it.
func overlap(mounts []*mountinfo.Info, a, b string) (bool, error) {
	if within(a, b) || within(b, a) {
		return true, nil
	}
	at, err := placeOf(mounts, a)
	if err != nil {
		return false, err
	}
	other, err := placeOf(mounts, b)
	if err != nil {
		return false, err
	}
	return at.device == other.device && (within(at.path, other.path) || within(other.path, at.path)), nil
}
