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

	"github.com/drover-run/drover/executor/shim/process"
)

const (
	// helperMemory is the soft memory limit of a file helper: packing and unpacking
	// take about half of it.
	helperMemory = "GOMEMLIMIT=96MiB"
	// helperThreads bounds the threads of a file helper on hosts of many processors,
	// since they count against the task's limit of processes: one for the files, two
	// for the compression, and one for the rest.
	helperThreads = "GOMAXPROCS=4"
)

// fileHelper is one call of a file helper.
type fileHelper struct {
	task *task

	mu      sync.Mutex
	aborted bool
	process *process.Process
	ours    []*os.File // our ends of its pipes
}

var errAborted = errors.New("the file helper was aborted")

func newFileHelper(t *task) *fileHelper { return &fileHelper{task: t} }

// abort kills the file helper and closes its pipes.
func (w *fileHelper) abort() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.aborted = true
	if w.process != nil {
		w.task.reaper.Kill(w.process)
	}
	for _, f := range w.ours {
		_ = f.Close()
	}
}

// do runs a file helper. in follows the request on its stdin, out receives its
// stdout; if either fails the call fails. It returns when the file helper has
// ended.
func (w *fileHelper) do(l helperRequest, in io.Reader, out io.Writer) (helperResponse, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return helperResponse{}, fmt.Errorf("encode the request: %w", err)
	}
	pipes, err := w.start()
	if err != nil {
		return helperResponse{}, err
	}
	var output bytes.Buffer
	var side sync.WaitGroup
	side.Go(func() { _, _ = io.Copy(&output, io.LimitReader(pipes.stderr, maxHelperOutput)) }) // parsed below
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
	<-w.process.Done
	side.Wait()
	how := w.process.Exit()
	w.mu.Lock()
	aborted := w.aborted
	for _, f := range w.ours {
		_ = f.Close()
	}
	w.mu.Unlock()
	switch {
	case inFault != nil:
		return helperResponse{}, inFault
	case outFault != nil:
		return helperResponse{}, outFault
	case aborted:
		return helperResponse{}, errAborted
	}
	return parseHelperResponse(output.Bytes(), how)
}

// maxHelperOutput bounds the stderr of a file helper that is kept: keys of a cache, or the
// panic of a Go program.
const maxHelperOutput = 256 << 10

// feed writes in to the file helper. It returns the read error of in only: the
// response of a file helper that has ended gives its reason.
func (w *fileHelper) feed(to io.Writer, in io.Reader) error {
	buffer := make([]byte, readSize)
	for {
		n, err := in.Read(buffer)
		fault := error(nil)
		if n > 0 {
			_, fault = to.Write(buffer[:n])
		}
		switch {
		case fault != nil, errors.Is(err, io.EOF):
			return nil //nolint:nilerr // the response gives the reason
		case err != nil:
			w.abort()
			return err
		}
	}
}

// pipes are our ends of the pipes of a file helper.
type pipes struct{ stdin, stdout, stderr *os.File }

// start starts the file helper.
func (w *fileHelper) start() (p pipes, err error) {
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
	c := process.Command{Path: self, Args: []string{self, fileHelperCommand}, Dir: string(os.PathSeparator), Env: helperEnvironment(), User: w.task.env.User}
	for _, pipe := range []struct {
		ours, theirs **os.File
		write        bool // ours
	}{{&p.stdin, &c.Stdin, true}, {&p.stdout, &c.Stdout, false}, {&p.stderr, &c.Stderr, false}} {
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
	w.process, err = w.task.reaper.Start(c)
	if err != nil {
		return p, fmt.Errorf("start drover-shim: %w", process.Plain(err))
	}
	return p, nil
}

// helperEnvironment returns the environment of a file helper.
func helperEnvironment() []string {
	if runtime.NumCPU() <= 4 {
		return []string{helperMemory}
	}
	return []string{helperMemory, helperThreads}
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
