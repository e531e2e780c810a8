package docker

import (
	"context"
	"time"

	cerrdefs "github.com/containerd/errdefs"
)

const (
	// silenceFirst is after how long a silent stream is first compared with
	// the journal, silenceMost how rarely in the end. Streams lose nothing by
	// themselves; but any other client of the daemon that is attached to the
	// container and does not read holds up everyone's.
	silenceFirst = 15 * time.Second
	silenceMost  = 5 * time.Minute
)

// journalSize is what the journal measured when a frame was its last one. The
// zero value knows nothing.
type journalSize struct {
	known bool
	last  int64 // frame
	bytes int64
}

// begin says that the first frame of all will have this number.
func (s *journalSize) begin(first int64) {
	*s = journalSize{known: first > 0, last: first - 1}
}

// add counts a frame that was read. Across a gap the size is not known.
func (s *journalSize) add(n, size int64) {
	if n > s.last {
		s.known = s.known && n == s.last+1
		s.last, s.bytes = n, s.bytes+size
	}
}

// checkSilence compares the size of the journal with what was read of it, and
// yields what is missing. While nothing happens it costs two requests that
// start nothing in the container.
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
		f.driver.log.WarnContext(ctx, "a container's streams are held up", "key", f.key.String())
	}
	again, err := f.measureJournal(ctx)
	if err == nil && again == size { // so it ended with the frame that was read last
		f.known = journalSize{known: true, last: f.next - 1, bytes: size}
	}
	return err
}

func (f *follower) measureJournal(ctx context.Context) (int64, error) {
	journal, err := f.driver.client.ContainerStatPath(ctx, f.id, journalPath())
	switch {
	case cerrdefs.IsNotFound(err): // not begun; or removed, which the streams' end tells
		return 0, nil
	case err != nil:
		return 0, daemonError(err, "measuring the journal of %s", f.key)
	}
	return journal.Size, nil
}
