package shim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
)

const (
	// porterMemory is the soft memory limit of a file helper: packing and unpacking
	// take about half of it.
	porterMemory = "GOMEMLIMIT=96MiB"
	// porterThreads bounds the threads of a file helper on hosts of many processors,
	// since they count against the task's limit of processes: one for the files, two
	// for the compression, and one for the rest.
	porterThreads = "GOMAXPROCS=4"
)

// porterWork is one call of a file helper.
type porterWork struct {
	task *task

	mu      sync.Mutex
	aborted bool
	process *process
	ours    []*os.File // our ends of its pipes
}

var errAborted = errors.New("the file helper was aborted")

func newPorterWork(t *task) *porterWork { return &porterWork{task: t} }

// abort kills the file helper and closes its pipes.
func (w *porterWork) abort() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.aborted = true
	if w.process != nil {
		w.task.reaper.kill(w.process)
	}
	for _, f := range w.ours {
		_ = f.Close()
	}
}

// do runs a file helper. in follows the request on its stdin, out receives its
// stdout; if either fails the call fails. It returns when the file helper has
// ended.
func (w *porterWork) do(l load, in io.Reader, out io.Writer) (delivery, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return delivery{}, fmt.Errorf("encode the request: %w", err)
	}
	pipes, err := w.start()
	if err != nil {
		return delivery{}, err
	}
	var told bytes.Buffer
	var side sync.WaitGroup
	side.Go(func() { _, _ = io.Copy(&told, io.LimitReader(pipes.stderr, maxTold)) }) // parsed below
	var outFault error
	side.Go(func() {
		if out == nil {
			out = io.Discard
		}
		if _, outFault = io.Copy(struct{ io.Writer }{out}, pipes.stdout); outFault != nil {
			w.abort()
		}
	})
	_, _ = pipes.stdin.Write(append(text, '\n')) // the response, or the exit, shows why a write failed
	inFault := error(nil)
	if in != nil {
		inFault = w.feed(pipes.stdin, in)
	}
	_ = pipes.stdin.Close()
	<-w.process.done
	side.Wait()
	how := w.process.exit()
	w.mu.Lock()
	aborted := w.aborted
	for _, f := range w.ours {
		_ = f.Close()
	}
	w.mu.Unlock()
	switch {
	case inFault != nil:
		return delivery{}, inFault
	case outFault != nil:
		return delivery{}, outFault
	case aborted:
		return delivery{}, errAborted
	}
	return delivered(told.Bytes(), how)
}

// maxTold bounds the stderr of a file helper that is kept: keys of a cache, or the
// panic of a Go program.
const maxTold = 256 << 10

// feed writes in to the file helper. It returns the read error of in only: the
// response of a file helper that has ended gives its reason.
func (w *porterWork) feed(to io.Writer, in io.Reader) error {
	buffer := make([]byte, readSize)
	for {
		n, err := in.Read(buffer)
		fault := error(nil)
		if n > 0 {
			_, fault = to.Write(buffer[:n])
		}
		switch {
		case fault != nil, errors.Is(err, io.EOF):
			return nil // the response gives the reason
		case err != nil:
			w.abort()
			return err
		}
	}
}

// pipes are our ends of the pipes of a file helper.
type pipes struct{ stdin, stdout, stderr *os.File }

// start starts the file helper.
func (w *porterWork) start() (p pipes, err error) {
	self, err := thisProgram()
	if err != nil {
		return p, fmt.Errorf("find drover-shim: %w", err)
	}
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
		if err != nil {
			w.abort() // closes ours
		}
	}()
	c := command{path: self, args: []string{self, porterCommand}, dir: string(os.PathSeparator), env: porterEnvironment(), user: w.task.user}
	for _, pipe := range []struct {
		ours, theirs **os.File
		write        bool // ours
	}{{&p.stdin, &c.stdin, true}, {&p.stdout, &c.stdout, false}, {&p.stderr, &c.stderr, false}} {
		r, o, err := os.Pipe()
		if err != nil {
			return p, fmt.Errorf("create a pipe: %w", err)
		}
		*pipe.ours, *pipe.theirs = r, o
		if pipe.write {
			*pipe.ours, *pipe.theirs = o, r
		}
		theirs = append(theirs, *pipe.theirs)
		w.mu.Lock()
		w.ours = append(w.ours, *pipe.ours)
		w.mu.Unlock()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.aborted {
		return p, errAborted
	}
	w.process, err = w.task.reaper.start(c)
	if err != nil {
		return p, fmt.Errorf("start drover-shim: %w", plain(err))
	}
	return p, nil
}

// porterEnvironment returns the environment of a file helper.
func porterEnvironment() []string {
	if runtime.NumCPU() <= 4 {
		return []string{porterMemory}
	}
	return []string{porterMemory, porterThreads}
}

// thisProgram returns a path of this program, which is valid even if its file was
// replaced meanwhile.
func thisProgram() (string, error) {
	const self = "/proc/self/exe"
	if runtime.GOOS == "linux" {
		if _, err := os.Stat(self); err == nil {
			return self, nil
		}
	}
	return os.Executable()
}
