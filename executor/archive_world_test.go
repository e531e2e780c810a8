package executor_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/drover-run/drover/archive"
	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/transfer"
	"github.com/drover-run/drover/run"
)

// errand is the archive transfer that a step of a script requests.
type errand struct {
	save string // content to pack; "": the step restores
	keys []string
}

func (e *errand) kind() string {
	if e.save != "" {
		return run.StepSaveCache
	}
	return run.StepRestoreCache
}

// waiting is a step of an environment that waits for its executor. It takes the
// part of the shim.
type waiting struct {
	w       *world
	errand  *errand
	frame   int64
	answers chan transfer.Answer

	mu       sync.Mutex
	answered bool
	unpacked []string // complete archives; the last one of each name counts
	fault    error    // of packing and unpacking
}

var _ transfer.Handler = (*waiting)(nil)

func (s *waiting) Ask() transfer.Ask { return transfer.Ask{Type: s.errand.kind(), Keys: s.errand.keys} }

// Pack takes some seconds, as packing many files does.
func (s *waiting) Pack(out io.Writer, _ transfer.Limits) (archive.Stats, error) {
	if s.fault != nil {
		return archive.Stats{}, s.fault
	}
	for i := 0; i < len(s.errand.save); i++ {
		s.w.sleep(time.Second)
		if _, err := io.WriteString(out, s.errand.save[i:i+1]); err != nil {
			return archive.Stats{}, err
		}
	}
	return archive.Stats{Entries: 1, Bytes: int64(len(s.errand.save))}, nil
}

func (s *waiting) Unpack(in io.Reader, _ transfer.Limits) (archive.Stats, error) {
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

func (s *waiting) Answer(a transfer.Answer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered {
		return false
	}
	s.answered = true
	s.answers <- a
	return true
}

// ask makes the step send a request and wait. Nil means that it was stopped.
func (e *env) ask(w *world, errand *errand) *transfer.Answer {
	s := &waiting{w: w, errand: errand, answers: make(chan transfer.Answer, 1), fault: w.packFault}
	e.mu.Lock()
	s.frame = e.first + int64(len(e.frames))
	e.waiting = s
	e.mu.Unlock()
	e.add(run.Frame{Kind: run.FrameAsk})
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

var _ executor.Courier = (*procHandle)(nil)

// Connect implements executor.ArchiveHandle.
func (h *procHandle) Connect(ctx context.Context) (io.ReadWriteCloser, error) {
	return through(h.process, func() (io.ReadWriteCloser, error) {
		h.env.mu.Lock()
		s := h.env.waiting
		h.env.mu.Unlock()
		ours, theirs := net.Pipe()
		if s == nil || ctx.Err() != nil {
			_ = theirs.Close()
			return ours, nil
		}
		h.w.group.Go(func() { transfer.Serve(theirs, s.frame, s) })
		h.w.mu.Lock()
		defer h.w.mu.Unlock()
		h.w.connects++
		return procConn{h.process, ours, h.w.connects%3 == 0 && h.w.lossy}, nil
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

// shelf holds the archives of the fake executor API.
type shelf struct {
	seen   map[string]string // by key
	begun  int               // calls of SaveArchive
	opened int
	faults []error // of the next calls of SaveArchive, after the first byte
	cut    int     // bytes after which a download breaks off; 0: never
	refuse error   // error of every call that begins a transfer
	bad    error   // at the end of every download
	digest string  // reported for the archives
}

func (p procDesk) FindArchives(ctx context.Context, q run.ArchiveQuery) ([]run.ArchiveRef, error) {
	return asking(ctx, p.process, func() ([]run.ArchiveRef, error) {
		s := p.w.desk
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.reach(q.Executor); err != nil {
			return nil, err
		}
		if s.shelf.refuse != nil {
			return nil, s.shelf.refuse
		}
		var found []run.ArchiveRef
		for _, key := range q.Keys {
			if _, ok := s.shelf.seen[key]; ok {
				found = append(found, run.ArchiveRef{Ref: key, ArchiveInfo: run.ArchiveInfo{Kind: run.ArchiveCache, Name: key, Digest: s.shelf.digest}})
			}
		}
		return found, nil
	})
}

func (p procDesk) OpenArchive(ctx context.Context, r run.ArchiveRead) (io.ReadCloser, error) {
	return asking(ctx, p.process, func() (io.ReadCloser, error) {
		s := p.w.desk
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.reach(r.Executor); err != nil {
			return nil, err
		}
		s.shelf.opened++
		rest := s.shelf.seen[r.Ref.Ref][r.Offset:]
		end := s.shelf.bad
		if s.shelf.cut > 0 && len(rest) > s.shelf.cut {
			rest, end = rest[:s.shelf.cut], run.Errorf(run.CodeUnavailable, "the connection broke off")
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
	r.process.w.desk.mu.Lock()
	defer r.process.w.desk.mu.Unlock()
	if r.process.w.desk.down {
		return 0, run.Errorf(run.CodeUnavailable, "the executor API is unavailable")
	}
	n := copy(b, r.rest[:1])
	r.rest = r.rest[n:]
	return n, nil
}

func (r *slowReader) Close() error { return nil }

func (p procDesk) BeginArchive(ctx context.Context, a run.ArchiveSave) (run.ArchiveUpload, error) {
	return asking(ctx, p.process, func() (run.ArchiveUpload, error) {
		s := p.w.desk
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.reach(a.Executor); err != nil {
			return run.ArchiveUpload{}, err
		}
		if s.shelf.refuse != nil {
			return run.ArchiveUpload{}, s.shelf.refuse
		}
		u := run.ArchiveUpload{Ref: a.CacheKey, Executor: a.Executor}
		if content, ok := s.shelf.seen[a.CacheKey]; ok {
			u.Saved = &run.ArchiveInfo{Name: a.CacheKey, Size: int64(len(content))}
		}
		return u, nil
	})
}

func (p procDesk) SaveArchive(ctx context.Context, u run.ArchiveUpload, content io.Reader) (run.ArchiveInfo, error) {
	return asking(ctx, p.process, func() (run.ArchiveInfo, error) {
		s := p.w.desk
		s.mu.Lock()
		s.shelf.begun++
		var fault error
		if len(s.shelf.faults) > 0 {
			fault, s.shelf.faults = s.shelf.faults[0], s.shelf.faults[1:]
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
		s.shelf.seen[u.Ref] = all.String()
		return run.ArchiveInfo{Kind: run.ArchiveCache, Name: u.Ref, Size: int64(all.Len())}, nil
	})
}
