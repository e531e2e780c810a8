package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/drover-run/drover/internal/durable"
	"github.com/drover-run/drover/run"
)

// retryWrite is the pause before another write to the journal after an error, which
// is usually a full disk. Full pipes block the steps until there is space, and
// nothing is lost.
const retryWrite = 500 * time.Millisecond

// writeAfter is how long an added frame may wait for more frames.
const writeAfter = 10 * time.Millisecond

// ErrExists is the error of Create if the directory has a journal already.
var ErrExists = errors.New("a journal exists already")

// Writer numbers frames and writes them to its file and to a copy. It is safe for
// concurrent use.
type Writer struct {
	mu    sync.Mutex
	file  *os.File
	size  int64       // of the complete frames in the file
	next  int64       // frame number
	buf   []byte      // frames that are not in the file
	timer *time.Timer // writes them
	ended bool        // the task_end frame was added
	copy  *Copy
	limit logLimit
}

// Options configure a journal.
type Options struct {
	// First is the number of the first frame.
	First int64
	// LogLimit bounds the output of the task, in bytes; 0 means no limit.
	LogLimit int64
	// Copy receives a copy of the frames; nil means none.
	Copy *Copy
}

// logLimit bounds the output of a task.
type logLimit struct {
	most int64 // bytes; 0: no limit
	used int64
	over bool
	line bool // the accepted output ends within a line
}

// pass returns the part of the data that is within the limit, and whether the limit
// is reached now.
func (l *logLimit) pass(data []byte) (_ []byte, reached bool) {
	if l.most == 0 {
		return data, false
	}
	if l.over {
		return nil, false
	}
	if room := l.most - l.used; int64(len(data)) > room {
		data, l.over = data[:room], true
	}
	if l.used += int64(len(data)); len(data) > 0 {
		l.line = data[len(data)-1] != '\n'
	}
	return data, l.over
}

// last is the last line of a log that reached its limit.
func (l *logLimit) last() []byte {
	text := fmt.Sprintf("drover: the log ends here, at its limit of %s; the task continues\n", size(l.most))
	if l.line {
		text = "\n" + text
	}
	return []byte(text)
}

func size(bytes int64) string {
	if bytes%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// Create creates a journal, with ErrExists if there is one. Its name is
// synced before any step can run: after a power loss of the host the executor hands
// the order over again, and only the journal then shows that the steps began.
func Create(dir string, o Options) (*Writer, error) {
	f, err := os.OpenFile(filepath.Join(dir, File), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, ErrExists
	}
	if err != nil {
		return nil, fmt.Errorf("create the journal: %w", err)
	}
	if err := errors.Join(f.Sync(), durable.SyncDir(dir)); err != nil {
		return nil, errors.Join(fmt.Errorf("create the journal: %w", err), f.Close())
	}
	j := &Writer{file: f, next: o.First, copy: o.Copy, limit: logLimit{most: o.LogLimit}}
	j.timer = time.AfterFunc(time.Hour, func() { j.Append() })
	j.timer.Stop()
	return j, nil
}

// Add numbers the frames. They are written after a short delay, or together with
// later frames: simultaneous events become one write, which wakes followers once.
func (j *Writer) Add(frames ...run.Frame) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.take(frames)
	j.timer.Reset(writeAfter)
}

// AppendRequest writes the frame with a step's request, and returns its number once the frame
// is in the file.
func (j *Writer) AppendRequest(f run.Frame) int64 {
	f.Kind = run.FrameArchiveRequest
	j.mu.Lock()
	n := j.next
	j.take([]run.Frame{f})
	j.mu.Unlock()
	j.Append()
	return n
}

// Append numbers the frames, and returns once they and all earlier ones are in the
// file. Frames after the task's end are dropped.
func (j *Writer) Append(frames ...run.Frame) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.take(frames)
	j.timer.Stop()
	if len(j.buf) == 0 {
		return
	}
	for j.write() != nil {
		<-time.NewTimer(retryWrite).C
	}
	j.copy.add(j.buf, j.ended) // after the file: a reader of the copy finds the frame in the file too
	j.buf = j.buf[:0]
}

func (j *Writer) take(frames []run.Frame) {
	for i := range frames {
		if j.ended {
			return
		}
		f := &frames[i]
		if f.Kind != run.FrameOutput {
			j.number(f)
			continue
		}
		data, reached := j.limit.pass(f.Data)
		if len(data) > 0 {
			f.Data = data
			j.number(f)
		}
		if reached {
			j.number(&run.Frame{Time: f.Time, Kind: run.FrameOutput, Step: f.Step, Stream: run.StreamSystem, Data: j.limit.last()})
		}
	}
}

func (j *Writer) number(f *run.Frame) {
	f.Version, f.N = f.Kind.Version(), j.next
	j.next++
	j.buf = appendFrame(j.buf, f)
	j.ended = f.Kind == run.FrameTaskEnd
}

// write writes buf after the frames of the file. The next write overwrites the
// remains of a failed one.
func (j *Writer) write() error {
	n, err := j.file.WriteAt(j.buf, j.size)
	if err != nil {
		return err
	}
	j.size += int64(n)
	return nil
}

// Sync returns once all frames are on the disk. An error of the disk is not reported:
// Close reports it.
func (j *Writer) Sync() {
	j.Append()
	_ = j.file.Sync()
}

// Close syncs the journal and closes it.
func (j *Writer) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return errors.Join(j.file.Sync(), j.file.Close())
}
