package agent_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/transfer"
	"github.com/drover-run/drover/internal/archive"
	"github.com/drover-run/drover/run"
)

// archiveTransfer is the archive transfer that a step of a script requests.
type archiveTransfer struct {
	save string // content to pack; "": the step restores
	keys []string
}

func (e *archiveTransfer) kind() string {
	if e.save != "" {
		return run.StepSaveCache
	}
	return run.StepRestoreCache
}

// waitingStep is a step of an environment that waits for its executor. It takes the
// part of the shim.
type waitingStep struct {
	w        *testEnv
	transfer *archiveTransfer
	frame    int64
	answers  chan transfer.Answer

	mu       sync.Mutex
	answered bool
	unpacked []string // complete archives; the last one of each name counts
	fault    error    // of packing and unpacking
}

var _ transfer.Handler = (*waitingStep)(nil)

func (s *waitingStep) Request() transfer.StepRequest {
	return transfer.StepRequest{Type: s.transfer.kind(), Keys: s.transfer.keys}
}

// Pack takes some seconds, as packing many files does.
func (s *waitingStep) Pack(out io.Writer, _ transfer.Limits) (archive.Stats, error) {
	if s.fault != nil {
		return archive.Stats{}, s.fault
	}
	for i := 0; i < len(s.transfer.save); i++ {
		s.w.sleep(time.Second)
		if _, err := io.WriteString(out, s.transfer.save[i:i+1]); err != nil {
			return archive.Stats{}, err
		}
	}
	return archive.Stats{Entries: 1, Bytes: int64(len(s.transfer.save))}, nil
}

func (s *waitingStep) Unpack(in io.Reader, _ transfer.Limits) (archive.Stats, error) {
	content, err := io.ReadAll(in)
	if err == nil {
		err = s.fault
	}
	if err != nil {
		return archive.Stats{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unpacked = append(s.unpacked, string(content))
	return archive.Stats{Entries: 1, Bytes: int64(len(content))}, nil
}

func (s *waitingStep) Answer(a transfer.Answer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered {
		return false
	}
	s.answered = true
	s.answers <- a
	return true
}

// sendRequest makes the step send a request and wait. Nil means that it was stopped.
func (e *env) sendRequest(w *testEnv, transferReq *archiveTransfer) *transfer.Answer {
	s := &waitingStep{w: w, transfer: transferReq, answers: make(chan transfer.Answer, 1), fault: w.packFault}
	e.mu.Lock()
	s.frame = e.first + int64(len(e.frames))
	e.waiting = s
	e.mu.Unlock()
	e.add(run.Frame{Kind: run.FrameArchiveRequest})
	select {
	case a := <-s.answers:
		return &a
	case <-e.stop:
	case <-e.gone:
	case <-w.ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered = true
	return nil
}

var _ executor.ArchiveHandle = (*procHandle)(nil)

// Connect implements executor.ArchiveHandle.
func (h *procHandle) Connect(ctx context.Context) (io.ReadWriteCloser, error) {
	return gatedCall(h.process, func() (io.ReadWriteCloser, error) {
		h.env.mu.Lock()
		s := h.env.waiting
		h.env.mu.Unlock()
		held, theirs := net.Pipe()
		if s == nil || ctx.Err() != nil {
			_ = theirs.Close()
			return held, nil
		}
		h.w.group.Go(func() { transfer.Serve(theirs, s.frame, s) })
		h.w.mu.Lock()
		defer h.w.mu.Unlock()
		h.w.connects++
		return procConn{h.process, held, h.w.connects%3 == 0 && h.w.lossy}, nil
	})
}

// procConn is a connection of one process. With deaf no answer arrives.
type procConn struct {
	process *process
	net.Conn
	deaf bool
}

func (c procConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if gate := c.process.gate(); gate != nil || c.deaf {
		_ = c.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

func (c procConn) Write(b []byte) (int, error) {
	if err := c.process.gate(); err != nil {
		_ = c.Close()
		return 0, err
	}
	return c.Conn.Write(b)
}

// archiveStore holds the archives of the fake executor API.
type archiveStore struct {
	seen   map[string]string // by key
	begun  int               // calls of SaveArchive
	opened int
	faults []error // of the next calls of SaveArchive, after the first byte
	cut    int     // bytes after which a download breaks off; 0: never
	refuse error   // error of every call that begins a transfer
	bad    error   // at the end of every download
	digest string  // reported for the archives
}

func (p procAPI) FindArchives(ctx context.Context, q run.ArchiveQuery) ([]run.ArchiveRef, error) {
	return faultyCall(ctx, p.process, func() ([]run.ArchiveRef, error) {
		s := p.w.api
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.reach(q.Executor); err != nil {
			return nil, err
		}
		if s.archives.refuse != nil {
			return nil, s.archives.refuse
		}
		var found []run.ArchiveRef
		for _, key := range q.Keys {
			if _, ok := s.archives.seen[key]; ok {
				found = append(found, run.ArchiveRef{Ref: key, ArchiveInfo: run.ArchiveInfo{Kind: run.ArchiveCache, Name: key, Digest: s.archives.digest}})
			}
		}
		return found, nil
	})
}

func (p procAPI) OpenArchive(ctx context.Context, r run.ArchiveRead) (io.ReadCloser, error) {
	return faultyCall(ctx, p.process, func() (io.ReadCloser, error) {
		s := p.w.api
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.reach(r.Executor); err != nil {
			return nil, err
		}
		s.archives.opened++
		rest := s.archives.seen[r.Ref.Ref][r.Offset:]
		end := s.archives.bad
		if s.archives.cut > 0 && len(rest) > s.archives.cut {
			rest, end = rest[:s.archives.cut], run.Errorf(run.CodeUnavailable, "the connection broke off")
		}
		return &slowReader{p.process, rest, end}, nil
	})
}

// slowReader returns a byte a second.
type slowReader struct {
	process *process
	rest    string
	end     error
}

func (r *slowReader) Read(b []byte) (int, error) {
	if r.rest == "" && r.end != nil {
		return 0, r.end
	}
	if r.rest == "" {
		return 0, io.EOF
	}
	r.process.w.sleep(time.Second)
	if err := r.process.gate(); err != nil {
		return 0, err
	}
	r.process.w.api.mu.Lock()
	defer r.process.w.api.mu.Unlock()
	if r.process.w.api.down {
		return 0, run.Errorf(run.CodeUnavailable, "the executor API is unavailable")
	}
	n := copy(b, r.rest[:1])
	r.rest = r.rest[n:]
	return n, nil
}

func (r *slowReader) Close() error { return nil }

func (p procAPI) BeginArchive(ctx context.Context, a run.ArchiveSave) (run.ArchiveUpload, error) {
	return faultyCall(ctx, p.process, func() (run.ArchiveUpload, error) {
		s := p.w.api
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.reach(a.Executor); err != nil {
			return run.ArchiveUpload{}, err
		}
		if s.archives.refuse != nil {
			return run.ArchiveUpload{}, s.archives.refuse
		}
		u := run.ArchiveUpload{Ref: a.CacheKey, Executor: a.Executor}
		if content, ok := s.archives.seen[a.CacheKey]; ok {
			u.Saved = &run.ArchiveInfo{Name: a.CacheKey, Size: int64(len(content))}
		}
		return u, nil
	})
}

func (p procAPI) SaveArchive(ctx context.Context, u run.ArchiveUpload, content io.Reader) (run.ArchiveInfo, error) {
	return faultyCall(ctx, p.process, func() (run.ArchiveInfo, error) {
		s := p.w.api
		s.mu.Lock()
		s.archives.begun++
		var fault error
		if len(s.archives.faults) > 0 {
			fault, s.archives.faults = s.archives.faults[0], s.archives.faults[1:]
		}
		s.mu.Unlock()
		var all strings.Builder
		for b := make([]byte, 1); ; {
			n, err := content.Read(b)
			all.Write(b[:n])
			if err == io.EOF {
				break
			}
			if err != nil {
				return run.ArchiveInfo{}, err
			}
			if fault != nil {
				return run.ArchiveInfo{}, fault
			}
			if err := p.gate(); err != nil {
				return run.ArchiveInfo{}, err
			}
			s.mu.Lock()
			fault := s.reach(u.Executor)
			s.mu.Unlock()
			if fault != nil {
				return run.ArchiveInfo{}, fault
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.archives.seen[u.Ref] = all.String()
		return run.ArchiveInfo{Kind: run.ArchiveCache, Name: u.Ref, Size: int64(all.Len())}, nil
	})
}
