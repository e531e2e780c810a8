package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

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
	size  int64 // of the whole frames in the file
	next  int64 // frame number
	ended bool  // the task_end frame was written
	copy  *stdoutCopy
	buf   []byte
}

// createJournal begins a journal, with errExists where there is one.
func createJournal(dir string, first int64, copyTo *stdoutCopy) (*journal, error) {
	f, err := os.OpenFile(filepath.Join(dir, JournalFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, errExists
	}
	if err != nil {
		return nil, fmt.Errorf("creating the journal: %w", err)
	}
	return &journal{file: f, next: first, copy: copyTo}, nil
}

// append gives the frames their numbers and writes them in one go. It returns
// when they are in the file. Frames after the task's end are dropped.
func (j *journal) append(frames ...run.Frame) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ended {
		return
	}
	j.buf = j.buf[:0]
	for i := range frames {
		f := &frames[i]
		f.Version, f.N = run.FrameVersion, j.next
		j.next++
		j.buf = appendFrame(j.buf, f)
		j.ended = j.ended || f.Kind == run.FrameTaskEnd
	}
	for j.write() != nil {
		time.Sleep(retryWrite)
	}
	j.copy.add(j.buf, j.ended) // after the file: what a reader sees it finds there too
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

// appendFrame appends the frame as a line of JSON.
func appendFrame(buf []byte, f *run.Frame) []byte {
	text, err := json.Marshal(f)
	if err != nil { // only a time outside years 0..9999 could
		f.Time = time.Time{}
		text, _ = json.Marshal(f)
	}
	return append(append(buf, text...), '\n')
}
