package docker

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"path"
	"strconv"

	cerrdefs "github.com/containerd/errdefs"

	"github.com/drover-run/drover/executor/shim"
	"github.com/drover-run/drover/run"
)

var (
	errNotRunning = errors.New("the container does not run")
	errAttachOver = errors.New("nobody waits for the attachment any more")
	errNoJournal  = errors.New("the shim has written no journal")
)

// journalPath is the shim's journal in a main container.
func journalPath() string { return path.Join(taskDir, shim.JournalFile) }

// hasJournal reports whether the shim has begun, that is whether a step can
// have run.
func (d *Driver) hasJournal(ctx context.Context, id string) (bool, error) {
	_, err := d.client.ContainerStatPath(ctx, id, journalPath())
	switch {
	case err == nil:
		return true, nil
	case cerrdefs.IsNotFound(err):
		return false, nil
	}
	return false, daemonError(err, "looking for the journal of container %s", id)
}

// catchUp yields what the journal of the running container has from the frame
// on that is due. A container that does not run is errNotRunning.
func (f *follower) catchUp(ctx context.Context) error {
	err := f.driver.liveJournal(ctx, f.id, f.next, f.take)
	if err == nil || errors.Is(err, errNotRunning) || f.done {
		return err
	}
	if code := run.CodeOf(err); code == run.CodeCanceled || code == run.CodeTimeout || code == run.CodeUnavailable {
		return err
	}
	// A container at its limit of processes or memory takes no further one, and
	// where one ends, the daemon prints what is no frame. The archive decides.
	failed := err
	err = f.readArchived(ctx)
	if err == nil {
		f.driver.log.WarnContext(ctx, "read a journal through the archive", "key", f.key.String(), "error", failed)
	}
	return err
}

// liveJournal has the shim in a running container read its journal.
func (d *Driver) liveJournal(ctx context.Context, id string, from int64, take func(f run.Frame, size int64) bool) error {
	var complaint tail
	wanted := true
	code, err := d.exec(ctx, id, []string{"read", "--dir", taskDir, "--from", strconv.FormatInt(from, 10)},
		&complaint, func(stdout io.Reader) (err error) {
			wanted, err = readFrames(stdout, from, take)
			return err
		})
	if err != nil || !wanted || code == shim.ExitDone || code == shim.ExitNoJournal {
		return err
	}
	return run.Errorf(run.CodeInternal, "the shim's reader ended with exit code %d: %s", code, complaint.String())
}

// archivedJournal copies the journal out of a container, running or not.
func (d *Driver) archivedJournal(ctx context.Context, id string, from int64, take func(f run.Frame, size int64) bool) error {
	content, _, err := d.client.CopyFromContainer(ctx, id, journalPath())
	if cerrdefs.IsNotFound(err) {
		return errNoJournal
	}
	if err != nil {
		return daemonError(err, "copying the journal of container %s", id)
	}
	defer func() { _ = content.Close() }()
	archive := tar.NewReader(content)
	if _, err := archive.Next(); err != nil {
		return daemonError(err, "copying the journal of container %s", id)
	}
	_, err = readFrames(archive, from, take)
	return err
}

// readFrames reads the lines of a journal. A last line without its end was cut
// off by the death of its writer and is no frame. It reports whether more
// frames are wanted. Errors wrap shim.ErrDamaged, unless the way broke.
func readFrames(journal io.Reader, from int64, take func(f run.Frame, size int64) bool) (wanted bool, err error) {
	for lines := shim.NewReader(journal); ; {
		line, n, err := lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			return true, nil
		case errors.Is(err, shim.ErrDamaged):
			return true, err
		case err != nil:
			return true, daemonError(err, "reading a journal")
		case n < from:
			continue
		}
		frame, err := shim.Decode(line)
		if err != nil {
			return true, err
		}
		if !take(frame, int64(len(line))) {
			return false, nil
		}
	}
}

// checkEnd returns an error where all was read and the shim has written the
// task's end: the journal was cut off. The shim waits for its acknowledgment
// then, and the container would run for ever.
func (f *follower) checkEnd(ctx context.Context) error {
	written, err := f.driver.endWritten(ctx, f.id)
	if err != nil || !written {
		return err
	}
	if err := f.readArchived(ctx); err != nil || f.done { // with what was written since
		return err
	}
	return shim.Damaged("the journal lacks the end of the task")
}

// readArchived yields what the journal has from the frame on that is due.
func (f *follower) readArchived(ctx context.Context) error {
	err := f.driver.archivedJournal(ctx, f.id, f.next, f.take)
	if errors.Is(err, errNoJournal) {
		return nil
	}
	return err
}

// endWritten reports whether the shim has written the task's end to its
// journal: it may live on to wait for the acknowledgment.
func (d *Driver) endWritten(ctx context.Context, id string) (bool, error) {
	const enough = 4 << 10
	text, err := d.copyFile(ctx, id, path.Join(taskDir, shim.LockFile), enough)
	if err != nil {
		return false, err
	}
	state, err := shim.DecodeState(text)
	return err == nil && state.Ended, nil
}

// copyFile returns a file of a container, nothing where it is not there, and no
// more than most bytes of it.
func (d *Driver) copyFile(ctx context.Context, id, name string, most int64) ([]byte, error) {
	content, _, err := d.client.CopyFromContainer(ctx, id, name)
	if cerrdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, daemonError(err, "copying %s of container %s", name, id)
	}
	defer func() { _ = content.Close() }()
	archive := tar.NewReader(content)
	if _, err := archive.Next(); err != nil {
		return nil, daemonError(err, "copying %s of container %s", name, id)
	}
	text, err := io.ReadAll(io.LimitReader(archive, most))
	if err != nil {
		return nil, daemonError(err, "copying %s of container %s", name, id)
	}
	return text, nil
}

// isStreamEnd reports whether an error of reading says that the connection is
// of no more use.
func isStreamEnd(err error) bool {
	var fault *run.Error
	return !errors.As(err, &fault)
}
