package archives

import (
	"context"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"sync"

	"github.com/drover-run/drover/internal/retry"
	"github.com/drover-run/drover/run"
)

// maxReopens is how many times in a row a download is reopened without receiving
// another byte.
const maxReopens = 4

// source is the content of an upload. Its stall timeout runs while the executor API
// reads it.
type source struct {
	from     io.Reader
	transfer *Transfer
	stall    *stallTimer

	mu    sync.Mutex // the HTTP client may continue to read for a moment
	fault error
}

// Read implements io.Reader.
func (s *source) Read(b []byte) (int, error) {
	s.stall.pause()
	n, err := s.from.Read(b)
	s.stall.resume()
	s.transfer.count(n)
	if err != nil && !errors.Is(err, io.EOF) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fault = err
	}
	return n, err
}

// failed returns the read error of the archive, nil for none.
func (s *source) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

// download reads an archive and reopens it at the current offset after a broken
// connection.
type download struct {
	ctx      context.Context //nolint:containedctx // of one transfer
	transfer *Transfer
	ref      run.ArchiveRef
	stall    *stallTimer

	open   io.ReadCloser
	offset int64
	broken int
	sum    hash.Hash // of the whole archive, over all connections
}

// Read implements io.Reader.
func (d *download) Read(b []byte) (int, error) {
	d.stall.resume()
	defer d.stall.pause()
	pauses := d.transfer.config.pauses()
	for {
		n, err := d.read(b)
		switch {
		case n > 0:
			d.offset += int64(n)
			d.broken = 0
			d.sum.Write(b[:n])
			d.transfer.count(n)
			if err != nil && !errors.Is(err, io.EOF) {
				d.close() // the next call reports it
				err = nil
			}
			return n, d.verifyDigest(err)
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			return 0, d.verifyDigest(err)
		case run.CodeOf(err) != run.CodeUnavailable || d.ctx.Err() != nil || d.broken >= maxReopens:
			return 0, err
		}
		d.broken++
		d.close()
		if retry.Sleep(d.ctx, pauses.NextBackOff()) != nil {
			return 0, err
		}
	}
}

// verifyDigest returns end, or an error if the digest of the archive is wrong.
func (d *download) verifyDigest(end error) error {
	if end == nil || d.ref.Digest == "" {
		return end
	}
	got := "sha256:" + hex.EncodeToString(d.sum.Sum(nil))
	if got == d.ref.Digest {
		return end
	}
	return run.Errorf(run.CodeInvalid, "the archive is not what was saved: its digest is %s, not %s", got, d.ref.Digest)
}

func (d *download) read(b []byte) (int, error) {
	if d.open == nil {
		ref := d.ref
		ref.Digest = "" // compared here, over all connections
		r, err := d.transfer.config.API.OpenArchive(d.ctx, run.ArchiveRead{Ref: ref, Executor: d.transfer.config.Executor, Offset: d.offset})
		if err != nil {
			return 0, err
		}
		d.open = r
	}
	return d.open.Read(b)
}

func (d *download) close() {
	if d.open != nil {
		_ = d.open.Close()
		d.open = nil
	}
}
