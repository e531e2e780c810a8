package controlplane

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"time"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

const (
	mediaZstd = "application/zstd"
	// trailerDigest sends the gateway the digest of the content, which it checks
	// before the archive becomes visible.
	trailerDigest = "Drover-Digest"
	digestPrefix  = "sha256:"
	// stall is how long a transfer may make no progress. The shim may examine many
	// files before it packs the first byte.
	stall = 5 * time.Minute
)

// errStall is the cause of a transfer that made no progress.
var errStall = errors.New("no progress for too long")

// FindArchives implements run.ArchiveAPI.
func (c *Client) FindArchives(ctx context.Context, q run.ArchiveQuery) ([]run.ArchiveRef, error) {
	var answer api.ArchiveRefs
	err := c.call(ctx, "find archives", c.api.FindArchivesWithBody, q, &answer)
	return answer.Archives, err
}

// BeginArchive implements run.ArchiveAPI.
func (c *Client) BeginArchive(ctx context.Context, s run.ArchiveSave) (run.ArchiveUpload, error) {
	var up run.ArchiveUpload
	err := c.call(ctx, "begin an archive", c.api.BeginArchiveWithBody, s, &up)
	return up, err
}

// OpenArchive implements run.ArchiveAPI. If the gateway redirects to the object
// store, the archive is read there; if that fails, it is read through the gateway.
func (c *Client) OpenArchive(ctx context.Context, r run.ArchiveRead) (io.ReadCloser, error) {
	watched, wd := newWatchdog(ctx)
	d := &download{client: c, caller: ctx, watched: watched, watchdog: wd, want: r.Ref.Digest}
	if err := d.open(r); err != nil {
		wd.end()
		return nil, fmt.Errorf("read an archive: %w", err)
	}
	if r.Offset == 0 && d.want != "" {
		d.sum = sha256.New()
	}
	return d, nil
}

// download is the body of an archive.
type download struct {
	client          *Client
	caller, watched context.Context //nolint:containedctx // of one call
	watchdog        *watchdog
	body            io.ReadCloser
	sum             hash.Hash // nil if the digest is not checked
	want            string
	direct          bool // from the object store
	received        bool // at least one byte was read
	done            bool // it reached its end, or broke off
}

func (d *download) open(r run.ArchiveRead) error {
	usable := d.client.store.usable()
	response, err := d.request(r, usable)
	if err != nil {
		return err
	}
	if usable && response.StatusCode == http.StatusTemporaryRedirect {
		_ = response.Body.Close() // it is empty
		d.body, err = d.client.store.open(d.watched, response.Header.Get("Location"), r.Offset, r.Ref.Size)
		if err == nil {
			d.direct = true
			return nil
		}
		if d.watched.Err() != nil {
			return transportError(d.caller, d.watched, err)
		}
		d.client.store.avoid()
		d.client.onIndirect(err)
		if response, err = d.request(r, false); err != nil {
			return err
		}
	}
	if err := answerError(response); err != nil {
		return errors.Join(err, response.Body.Close())
	}
	d.body = response.Body
	return nil
}

func (d *download) request(r run.ArchiveRead, direct bool) (*http.Response, error) {
	response, err := d.client.api.OpenArchive(d.watched, &api.OpenArchiveParams{
		Executor: r.Executor, Offset: r.Offset, DroverArchive: r.Ref.Ref, DroverDirect: direct,
	})
	if err != nil {
		return nil, transportError(d.caller, d.watched, err)
	}
	return response, nil
}

// Read implements io.Reader.
func (d *download) Read(b []byte) (int, error) {
	n, err := d.body.Read(b)
	d.watchdog.reset()
	d.received = d.received || n > 0
	if d.sum != nil {
		d.sum.Write(b[:n])
	}
	switch {
	case errors.Is(err, io.EOF):
		d.done = true
		if got := sumOf(d.sum); d.sum != nil && got != d.want {
			return n, run.Errorf(run.CodeInvalid, "the archive is not what was saved: its digest is %s, not %s", got, d.want)
		}
	case err != nil:
		d.done = d.received && d.watched.Err() == nil
		peer := "the gateway"
		if d.direct {
			peer = "the object store"
		}
		err = fmt.Errorf("read an archive: %w", unreachable(peer, d.caller, d.watched, err))
	}
	return n, err
}

// Close implements io.Closer.
func (d *download) Close() error {
	if d.direct && !d.done { // abandoned, for example after a stall
		d.client.store.avoid()
	}
	d.watchdog.end()
	return d.body.Close()
}

// SaveArchive implements run.ArchiveAPI.
func (c *Client) SaveArchive(ctx context.Context, u run.ArchiveUpload, content io.Reader) (run.ArchiveInfo, error) {
	const doing = "save an archive"
	watched, wd := newWatchdog(ctx)
	defer wd.end()
	body := &upload{r: content, sum: sha256.New(), watchdog: wd, trailer: http.Header{trailerDigest: nil}}
	response, err := c.api.SaveArchiveWithBody(watched, &api.SaveArchiveParams{Executor: u.Executor, DroverArchive: u.Ref}, mediaZstd, body,
		func(_ context.Context, r *http.Request) error {
			r.ContentLength, r.Trailer = -1, body.trailer
			return nil
		})
	if err != nil {
		if failed := body.failure(); failed != nil {
			return run.ArchiveInfo{}, failed
		}
		return run.ArchiveInfo{}, fmt.Errorf("%s: %w", doing, transportError(ctx, watched, err))
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	if err := answerError(response); err != nil {
		return run.ArchiveInfo{}, fmt.Errorf("%s: %w", doing, err)
	}
	var info run.ArchiveInfo
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&info); err != nil {
		return info, fmt.Errorf("%s: read the response: %w", doing, transportError(ctx, watched, err))
	}
	return info, nil
}

// upload is the body of an archive that is sent. Its digest follows in a trailer.
type upload struct {
	r        io.Reader
	sum      hash.Hash
	watchdog *watchdog
	trailer  http.Header
}

// Read implements io.Reader.
func (s *upload) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	s.watchdog.reset()
	s.sum.Write(b[:n])
	switch {
	case errors.Is(err, io.EOF):
		s.trailer.Set(trailerDigest, sumOf(s.sum))
	case err != nil:
		s.watchdog.fail(err)
	}
	return n, err
}

// failure returns the read error of the content, nil for none.
func (s *upload) failure() error { return s.watchdog.failure() }

func sumOf(sum hash.Hash) string {
	if sum == nil {
		return ""
	}
	return digestPrefix + hex.EncodeToString(sum.Sum(nil))
}
