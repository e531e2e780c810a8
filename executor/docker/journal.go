package docker

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"path"
	"strconv"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/drover-run/drover/executor/shim"
	"github.com/drover-run/drover/executor/shim/journal"
	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/run"
)

var (
	errNotRunning     = errors.New("the container is not running")
	errAttachCanceled = errors.New("the attachment is not needed any more")
	errNoJournal      = errors.New("the shim has written no journal")
)

// journalPath is the shim's journal in a main container.
func journalPath() string { return path.Join(taskDir, journal.File) }

// hasJournal reports whether a main container has a journal. If the container was started,
// the shim has begun it, so a step can have run; see also planted.
func (d *Driver) hasJournal(ctx context.Context, id string) (bool, error) {
	_, err := taskFiles{d}.stat(ctx, id, journalPath())
	switch {
	case err == nil:
		return true, nil
	case cerrdefs.IsNotFound(err):
		return false, nil
	}
	return false, daemonError(err, "find the journal of container %s", id)
}

// checkNoJournal refuses a container that this call has created and not started, if it has a
// journal: that would be read as the result of steps that never ran. Only the image or a
// volume can have brought it.
func (s *starting) checkNoJournal(ctx context.Context) error {
	exists, err := s.driver.hasJournal(ctx, s.id)
	switch {
	case err != nil && len(s.plan.lasting)+len(s.plan.volumes) == 0:
		return err
	case err != nil:
		return refused(err, "look into a container of image %s, in which a file may be in the place of a volume", s.task.Definition.Image)
	case !exists:
		return nil
	}
	return run.Errorf(run.CodeInvalid, "%s: the image %s or a volume of the task has the file %s; use others", plantedReason, s.task.Definition.Image, journalPath())
}

// plantedReason describes a container whose journal is not of its shim.
const plantedReason = "the container had a journal before its shim began, so the steps were not run"

// planted reports whether a journal in a container that is not running is not of its shim: the
// shim was never started, or it has found the journal. The driver starts each container once,
// and sends it one order.
func planted(state *container.State) bool {
	return state.Status == container.StateCreated || state.ExitCode == shim.ExitExists
}

// catchUp yields the frames from f.next on that the journal of the running
// container has. If the container is not running, the error is errNotRunning.
func (f *follower) catchUp(ctx context.Context) error {
	err := f.driver.liveJournal(ctx, f.id, f.next, f.take)
	if err == nil || errors.Is(err, errNotRunning) || f.done {
		return err
	}
	if code := run.CodeOf(err); code == run.CodeCanceled || code == run.CodeTimeout || code == run.CodeUnavailable {
		return err
	}
	// A container at its limit of processes or memory cannot run another
	// process. If the process is killed, the daemon's output is not a frame.
	// Read the archive instead.
	failed := err
	err = f.readArchived(ctx)
	if err == nil {
		f.driver.log.WarnContext(ctx, "read a journal through the archive", "key", f.key.String(), "error", failed)
	}
	return err
}

// liveJournal reads the journal by running the shim's reader in the running
// container.
func (d *Driver) liveJournal(ctx context.Context, id string, from int64, take func(f run.Frame, size int64) bool) error {
	var stderr tail
	requested := true
	code, err := d.exec(ctx, id, []string{"read", "--dir", taskDir, "--from", strconv.FormatInt(from, 10)},
		&stderr, func(stdout io.Reader) (err error) {
			requested, err = readFrames(stdout, from, take)
			return err
		})
	if err != nil || !requested || code == shim.ExitDone || code == shim.ExitNoJournal {
		return err
	}
	return run.Errorf(run.CodeInternal, "the shim's reader ended with exit code %d: %s", code, stderr.String())
}

// archivedJournal copies the journal out of a container, which may be running
// or not.
func (d *Driver) archivedJournal(ctx context.Context, id string, from int64, take func(f run.Frame, size int64) bool) error {
	content, err := taskFiles{d}.read(ctx, id, journalPath())
	if cerrdefs.IsNotFound(err) {
		return errNoJournal
	}
	if err != nil {
		return daemonError(err, "copy the journal of container %s", id)
	}
	defer func() { _ = content.Close() }()
	archive := tar.NewReader(content)
	if _, err := archive.Next(); err != nil {
		return daemonError(err, "copy the journal of container %s", id)
	}
	_, err = readFrames(archive, from, take)
	return err
}

// readFrames reads the lines of a journal. A last line without a newline was
// cut off when its writer died, and is not a frame. readFrames reports whether
// the caller wants more frames. Errors wrap journal.ErrDamaged, unless reading
// itself failed.
func readFrames(in io.Reader, from int64, take func(f run.Frame, size int64) bool) (requested bool, err error) {
	for lines := journal.NewReader(in); ; {
		line, n, err := lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			return true, nil
		case errors.Is(err, journal.ErrDamaged):
			return true, err
		case err != nil:
			return true, daemonError(err, "read a journal")
		case n < from:
			continue
		}
		frame, err := journal.Decode(line)
		if err != nil {
			return true, err
		}
		if !take(frame, int64(len(line))) {
			return false, nil
		}
	}
}

// checkEnd returns an error if every frame was read and the shim has written
// the task's end: the journal was cut off. The shim then waits for an
// acknowledgment, and without the error the container would run forever.
func (f *follower) checkEnd(ctx context.Context) error {
	written, err := f.driver.endWritten(ctx, f.id)
	if err != nil || !written {
		return err
	}
	if err := f.readArchived(ctx); err != nil || f.done { // includes frames written since
		return err
	}
	return journal.Damaged("the journal lacks the end of the task")
}

// readArchived yields the frames from f.next on that the archived journal has.
func (f *follower) readArchived(ctx context.Context) error {
	err := f.driver.archivedJournal(ctx, f.id, f.next, f.take)
	if errors.Is(err, errNoJournal) {
		return nil
	}
	return err
}

// endWritten reports whether the shim has written the task's end to its
// journal. The shim may keep running to wait for the acknowledgment.
func (d *Driver) endWritten(ctx context.Context, id string) (bool, error) {
	const enough = 4 << 10
	text, err := d.copyFile(ctx, id, path.Join(taskDir, process.LockFile), enough)
	if err != nil {
		return false, err
	}
	state, err := process.DecodeState(text)
	return err == nil && state.Ended, nil
}

// copyFile returns at most limit bytes of a file in a container. It returns nil
// if the file does not exist.
func (d *Driver) copyFile(ctx context.Context, id, name string, limit int64) ([]byte, error) {
	content, err := taskFiles{d}.read(ctx, id, name)
	if cerrdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, daemonError(err, "copy %s of container %s", name, id)
	}
	defer func() { _ = content.Close() }()
	archive := tar.NewReader(content)
	if _, err := archive.Next(); err != nil {
		return nil, daemonError(err, "copy %s of container %s", name, id)
	}
	text, err := io.ReadAll(io.LimitReader(archive, limit))
	if err != nil {
		return nil, daemonError(err, "copy %s of container %s", name, id)
	}
	return text, nil
}

// isStreamEnd reports whether a read error means that the connection is
// unusable.
func isStreamEnd(err error) bool {
	var fault *run.Error
	return !errors.As(err, &fault)
}
