package docker

import (
	"context"
	"time"

	cerrdefs "github.com/containerd/errdefs"
)

const (
	// silenceMin is how long a stream may be silent before it is first
	// compared with the journal. The interval then doubles up to silenceMax.
	// Streams lose nothing by themselves, but any other client of the daemon
	// that is attached to the container and does not read blocks all of them.
	silenceMin = 15 * time.Second
	silenceMax = 5 * time.Minute
)

// journalSize is the size of the journal at the time a frame was its last one.
// In the zero value the size is unknown.
type journalSize struct {
	known bool
	last  int64 // frame
	bytes int64
}

// begin records the number that the first frame of the journal will have.
func (s *journalSize) begin(first int64) {
	*s = journalSize{known: first > 0, last: first - 1}
}

// add counts a frame that was read. After a gap the size is unknown.
func (s *journalSize) add(n, size int64) {
	if n > s.last {
		s.known = s.known && n == s.last+1
		s.last, s.bytes = n, s.bytes+size
	}
}

// checkSilence compares the size of the journal with the frames read from it,
// and yields missing frames. While the task is silent it costs two requests,
// and starts no process in the container.
func (f *follower) checkSilence(ctx context.Context) error {
	size, err := f.measureJournal(ctx)
	if err != nil {
		return err
	}
	if f.known.known && size <= f.known.bytes {
		return f.checkEnd(ctx)
	}
	before := f.next
	if err := f.catchUp(ctx); err != nil || f.done {
		return err
	}
	if f.next > before {
		f.driver.log.WarnContext(ctx, "the streams of a container are blocked", "key", f.key.String())
	}
	again, err := f.measureJournal(ctx)
	if err == nil && again == size { // so the frame read last was the last one of the journal
		f.known = journalSize{known: true, last: f.next - 1, bytes: size}
	}
	return err
}

func (f *follower) measureJournal(ctx context.Context) (int64, error) {
	journal, err := taskFiles{f.driver}.stat(ctx, f.id, journalPath())
	switch {
	case cerrdefs.IsNotFound(err): // not begun, or removed, which the end of the streams reports
		return 0, nil
	case err != nil:
		return 0, daemonError(err, "measure the journal of %s", f.key)
	}
	return journal.Size, nil
}
