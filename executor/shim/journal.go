package shim

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

// retryWrite is the pause before the journal is written to again after a
// fault, which is a full disk in all likelihood: the steps are held up by
// their pipes until there is room, and nothing is lost.
const retryWrite = 500 * time.Millisecond

var errExists = errors.New("a journal exists already")

// journal numbers frames and writes them to its file, and to a copy. It is
// safe for concurrent use.
type journal struct {
	mu    sync.Mutex
	file  *os.File
	size  int64       // of the whole frames in the file
	next  int64       // frame number
	buf   []byte      // frames that are not in the file
	timer *time.Timer // writes them
	ended bool        // the task_end frame was taken
	copy  *stdoutCopy
	limit logLimit
}

// logLimit lets so much output pass and no more.
type logLimit struct {
	most int64 // bytes; 0: all
	used int64
	over bool
	line bool // what passed ends within a line
}

// pass returns what passes of output frames, and whether the limit is reached
// now.
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

// last is the last line of a log that was too long.
func (l *logLimit) last() []byte {
	text := fmt.Sprintf("drover: the log ends here, at its limit of %s; the task goes on\n", size(l.most))
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

// createJournal begins a journal, with errExists where there is one. Its name is
// synced before any step can run: an executor hands an order over again after
// its host lost power, and the journal alone then says that the steps began.
func createJournal(dir string, first int64, copyTo *stdoutCopy) (*journal, error) {
	f, err := os.OpenFile(filepath.Join(dir, JournalFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, errExists
	}
	if err != nil {
		return nil, fmt.Errorf("creating the journal: %w", err)
	}
	if err := errors.Join(f.Sync(), durable.SyncDir(dir)); err != nil {
		return nil, errors.Join(fmt.Errorf("creating the journal: %w", err), f.Close())
	}
	j := &journal{file: f, next: first, copy: copyTo}
	j.timer = time.AfterFunc(time.Hour, func() { j.append() })
	j.timer.Stop()
	return j, nil
}

// add gives the frames their numbers. They are in the file soon, or together
// with those that follow: what happens at once is told at once, and wakes
// followers once.
func (j *journal) add(frames ...run.Frame) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.take(frames)
	j.timer.Reset(flushAfter)
}

// ask writes the frame by which a step asks the executor, and returns its
// number once it is in the file.
func (j *journal) ask(f run.Frame) int64 {
	f.Kind = run.FrameAsk
	j.mu.Lock()
	n := j.next
	j.take([]run.Frame{f})
	j.mu.Unlock()
	j.append()
	return n
}

// append gives the frames their numbers, and returns when they and all before
// are in the file. Frames after the task's end are dropped.
func (j *journal) append(frames ...run.Frame) {
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
	j.copy.add(j.buf, j.ended) // after the file: what a reader sees it finds there too
	j.buf = j.buf[:0]
}

func (j *journal) take(frames []run.Frame) {
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

func (j *journal) number(f *run.Frame) {
	f.Version, f.N = f.Kind.Version(), j.next
	j.next++
	j.buf = appendFrame(j.buf, f)
	j.ended = f.Kind == run.FrameTaskEnd
}

// write writes buf behind the frames of the file. What a failed write left is
// overwritten by the next one.
func (j *journal) write() error {
	n, err := j.file.WriteAt(j.buf, j.size)
	if err != nil {
		return err
	}
	j.size += int64(n)
	return nil
}

// close makes the journal last and closes it.
func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return errors.Join(j.file.Sync(), j.file.Close())
}
