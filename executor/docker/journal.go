package docker

import (
	"archive/tar"
	"bufio"
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
	// A container at its limit of processes or memory takes no further one.
	f.driver.log.WarnContext(ctx, "reading a journal through the archive", "key", f.key.String(), "error", err)
	err = f.driver.archivedJournal(ctx, f.id, f.next, f.take)
	if errors.Is(err, errNoJournal) {
		return nil
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
// frames are wanted.
func readFrames(journal io.Reader, from int64, take func(f run.Frame, size int64) bool) (wanted bool, err error) {
	for lines := bufio.NewReaderSize(journal, lineBuffer); ; {
		line, err := lines.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF):
			return true, nil
		case err != nil:
			return true, daemonError(err, "reading a journal")
		}
		frame, err := decodeFrame(line)
		if err != nil {
			return true, err
		}
		if frame.N >= from && !take(frame, int64(len(line))) {
			return false, nil
		}
	}
}

// isStreamEnd reports whether an error of reading says that the connection is
// of no more use.
func isStreamEnd(err error) bool {
	var fault *run.Error
	return !errors.As(err, &fault)
}
