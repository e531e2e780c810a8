package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

const (
	mediaZstd = "application/zstd"
	// trailerDigest names the trailer after an archive that an executor uploads:
	// the digest of the bytes that it sent.
	trailerDigest = "Drover-Digest"
	// transferBuffer is the size of the buffer between an archive and its
	// connection.
	transferBuffer = 256 << 10
	// uploadStall is how long an upload may be idle: an executor that packs an
	// archive may read many files before it has a byte to send.
	uploadStall = 5 * time.Minute
)

// FindArchives implements ServerInterface.
func (s *Server) FindArchives(c echo.Context) error {
	var body run.ArchiveQuery
	executorAPI, err := s.decodeExecutorCall(c, &body)
	if err != nil {
		return err
	}
	if err := checkStepBinding(c, body.Executor, body.Key); err != nil {
		return err
	}
	refs, err := executorAPI.FindArchives(c.Request().Context(), body)
	if err != nil {
		return executorError(c, err)
	}
	return writeJSON(c, http.StatusOK, mediaJSON, api.ArchiveRefs{Archives: listOf(refs)})
}

// BeginArchive implements ServerInterface.
func (s *Server) BeginArchive(c echo.Context) error {
	var body run.ArchiveSave
	executorAPI, err := s.decodeExecutorCall(c, &body)
	if err != nil {
		return err
	}
	if err := checkStepBinding(c, body.Executor, body.Key); err != nil {
		return err
	}
	up, err := executorAPI.BeginArchive(c.Request().Context(), body)
	if err != nil {
		return executorError(c, err)
	}
	return writeJSON(c, http.StatusOK, mediaJSON, up)
}

// checkStepBinding checks the fields and the token of a request for a step.
func checkStepBinding(c echo.Context, executor string, key run.Key) error {
	if err := requireFields(textField{"executor", executor}, textField{"key.run", string(key.Run)}); err != nil {
		return err
	}
	return checkBinding(c, executor, "")
}

// OpenArchive implements ServerInterface.
func (s *Server) OpenArchive(c echo.Context, params api.OpenArchiveParams) error {
	executorAPI, err := s.requireExecutorAPI()
	if err != nil {
		return err
	}
	if err := checkBinding(c, params.Executor, ""); err != nil {
		return err
	}
	ctx, closeStream := s.streams.open(c.Request().Context())
	defer closeStream()
	read := run.ArchiveRead{Ref: run.ArchiveRef{Ref: params.DroverArchive}, Executor: params.Executor, Offset: params.Offset}
	if locator, ok := executorAPI.(run.ArchiveLocator); ok && params.DroverDirect {
		address, err := locator.LocateArchive(ctx, read)
		if err != nil {
			return executorError(c, err)
		}
		if address != "" {
			return redirectToStore(c, address)
		}
	}
	content, err := executorAPI.OpenArchive(ctx, read)
	if err != nil {
		return executorError(c, err)
	}
	return s.send(ctx, c, http.StatusOK, mediaZstd, content)
}

// redirectToStore redirects the caller to an object store. The URL is a credential: the
// gateway sends it to the caller only and does not log it.
func redirectToStore(c echo.Context, address string) error {
	h := c.Response().Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	return c.Redirect(http.StatusTemporaryRedirect, address)
}

// send copies content to the response up to its end, and closes it. A response
// that is cut off has no final chunk.
func (s *Server) send(ctx context.Context, c echo.Context, status int, media string, content io.ReadCloser) error {
	defer func() {
		if err := content.Close(); err != nil {
			s.logger.DebugContext(ctx, "failed to close content", "request_id", requestID(c), "error", err)
		}
	}()
	defer s.metrics.trackStream(c.Path())()
	// An error of the first read can still be answered with a problem document.
	buffer := make([]byte, transferBuffer)
	n, err := io.ReadFull(content, buffer)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	w, streamErr := s.startStreamStatus(c, status, media)
	if streamErr != nil {
		return streamErr
	}
	for {
		if n > 0 {
			if err := w.write(buffer[:n]); err != nil {
				abortResponse(c)
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
			abortResponse(c)
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		n, err = content.Read(buffer)
	}
}

// SaveArchive implements ServerInterface.
func (s *Server) SaveArchive(c echo.Context, params api.SaveArchiveParams) error {
	executorAPI, err := s.requireExecutorAPI()
	if err != nil {
		return err
	}
	if err := checkBinding(c, params.Executor, ""); err != nil {
		return err
	}
	ctx, closeStream := s.streams.open(c.Request().Context())
	defer closeStream()
	defer s.metrics.trackStream(c.Path())()
	c.Set(streamedKey, true)
	body := &upload{request: c.Request(), control: http.NewResponseController(c.Response()), timeout: uploadStall, sum: sha256.New()}
	info, err := executorAPI.SaveArchive(ctx, run.ArchiveUpload{Ref: params.DroverArchive, Executor: params.Executor}, body)
	if err != nil && !body.broken {
		// Without reading the body, the executor would see a broken connection instead of the answer.
		_, _ = io.CopyN(io.Discard, body, drainFactor*s.opts.MaxBody)
	}
	if err != nil {
		return executorError(c, err)
	}
	if err := body.control.SetWriteDeadline(time.Now().Add(s.opts.WriteTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return writeJSON(c, http.StatusOK, mediaJSON, info)
}

// upload is the body of a request without a time limit of its own: each read has
// a deadline.
type upload struct {
	request *http.Request
	control *http.ResponseController
	timeout time.Duration
	sum     hash.Hash
	broken  bool
}

var _ run.DigestReader = (*upload)(nil)

// Digest implements run.Summed.
func (u *upload) Digest() string { return "sha256:" + hex.EncodeToString(u.sum.Sum(nil)) }

// Read implements io.Reader. It returns io.EOF only after the complete body, and
// checks the digest then.
func (u *upload) Read(b []byte) (int, error) {
	if err := u.control.SetReadDeadline(time.Now().Add(u.timeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	n, err := u.request.Body.Read(b)
	u.sum.Write(b[:n])
	switch {
	case errors.Is(err, io.EOF):
		if want := u.request.Trailer.Get(trailerDigest); want != "" && want != u.Digest() {
			return n, run.Errorf(run.CodeInvalid, "the archive differs from the archive that was sent: its digest should be %s", want)
		}
	case err != nil:
		u.broken = true
		err = &run.Error{Code: run.CodeUnreadable, Message: "the upload was cut off", Err: err}
	}
	return n, err
}
