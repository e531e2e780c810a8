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
	// trailerDigest follows an archive that an executor sends: what it sent.
	trailerDigest = "Drover-Digest"
	// transferBuffer is how much of an archive is in memory on its way.
	transferBuffer = 256 << 10
	// uploadStall is how long an executor may send nothing: who packs may look at
	// many files before there is a byte to send.
	uploadStall = 5 * time.Minute
)

// DeskFindArchives implements ServerInterface.
func (s *Server) DeskFindArchives(c echo.Context) error {
	var body run.ArchiveQuery
	desk, err := s.deskBody(c, &body)
	if err != nil {
		return err
	}
	if err := boundStep(c, body.Executor, body.Key); err != nil {
		return err
	}
	refs, err := desk.FindArchives(c.Request().Context(), body)
	if err != nil {
		return deskError(c, err)
	}
	return writeJSON(c, http.StatusOK, mediaJSON, api.ArchiveRefs{Archives: listOf(refs)})
}

// DeskBeginArchive implements ServerInterface.
func (s *Server) DeskBeginArchive(c echo.Context) error {
	var body run.ArchiveSave
	desk, err := s.deskBody(c, &body)
	if err != nil {
		return err
	}
	if err := boundStep(c, body.Executor, body.Key); err != nil {
		return err
	}
	up, err := desk.BeginArchive(c.Request().Context(), body)
	if err != nil {
		return deskError(c, err)
	}
	return writeJSON(c, http.StatusOK, mediaJSON, up)
}

// boundStep checks who speaks of a step.
func boundStep(c echo.Context, executor string, key run.Key) error {
	if err := need(given{"executor", executor}, given{"key.run", string(key.Run)}); err != nil {
		return err
	}
	return bound(c, executor, "")
}

// DeskOpenArchive implements ServerInterface.
func (s *Server) DeskOpenArchive(c echo.Context, params api.DeskOpenArchiveParams) error {
	desk, err := s.executorDesk()
	if err != nil {
		return err
	}
	if err := bound(c, params.Executor, ""); err != nil {
		return err
	}
	ctx, closeStream := s.streams.open(c.Request().Context())
	defer closeStream()
	read := run.ArchiveRead{Ref: run.ArchiveRef{Ref: params.DroverArchive}, Executor: params.Executor, Offset: params.Offset}
	if locator, ok := desk.(run.ArchiveLocator); ok && params.DroverDirect {
		address, err := locator.LocateArchive(ctx, read)
		if err != nil {
			return deskError(c, err)
		}
		if address != "" {
			return elsewhere(c, address)
		}
	}
	content, err := desk.OpenArchive(ctx, read)
	if err != nil {
		return deskError(c, err)
	}
	return s.send(ctx, c, http.StatusOK, mediaZstd, content)
}

// elsewhere sends the caller to an object store. The URL is a secret: it is told
// to nobody else.
func elsewhere(c echo.Context, address string) error {
	h := c.Response().Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	return c.Redirect(http.StatusTemporaryRedirect, address)
}

// send answers with what is read, to its end, and closes it. An answer that
// breaks off has no final chunk.
func (s *Server) send(ctx context.Context, c echo.Context, status int, media string, content io.ReadCloser) error {
	defer func() {
		if err := content.Close(); err != nil {
			s.logger.DebugContext(ctx, "content not closed", "request_id", requestID(c), "error", err)
		}
	}()
	defer s.metrics.stream(c.Path())()
	// What fails at once can still be answered as a problem.
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
				breakOff(c)
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
			breakOff(c)
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		n, err = content.Read(buffer)
	}
}

// DeskSaveArchive implements ServerInterface.
func (s *Server) DeskSaveArchive(c echo.Context, params api.DeskSaveArchiveParams) error {
	desk, err := s.executorDesk()
	if err != nil {
		return err
	}
	if err := bound(c, params.Executor, ""); err != nil {
		return err
	}
	ctx, closeStream := s.streams.open(c.Request().Context())
	defer closeStream()
	defer s.metrics.stream(c.Path())()
	c.Set(streamedKey, true)
	body := &upload{request: c.Request(), control: http.NewResponseController(c.Response()), timeout: uploadStall, sum: sha256.New()}
	info, err := desk.SaveArchive(ctx, run.ArchiveUpload{Ref: params.DroverArchive, Executor: params.Executor}, body)
	if err != nil && !body.broken {
		// The executor would see a broken connection in place of the answer.
		_, _ = io.CopyN(io.Discard, body, drainFactor*s.opts.MaxBody)
	}
	if err != nil {
		return deskError(c, err)
	}
	if err := body.control.SetWriteDeadline(time.Now().Add(s.opts.WriteTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return writeJSON(c, http.StatusOK, mediaJSON, info)
}

// upload is the body of a request that takes as long as it goes on: each read
// has its own deadline.
type upload struct {
	request *http.Request
	control *http.ResponseController
	timeout time.Duration
	sum     hash.Hash
	broken  bool
}

var _ run.Summed = (*upload)(nil)

// Digest implements run.Summed.
func (u *upload) Digest() string { return "sha256:" + hex.EncodeToString(u.sum.Sum(nil)) }

// Read implements io.Reader. It ends well only where the whole body came.
func (u *upload) Read(b []byte) (int, error) {
	if err := u.control.SetReadDeadline(time.Now().Add(u.timeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	n, err := u.request.Body.Read(b)
	u.sum.Write(b[:n])
	switch {
	case errors.Is(err, io.EOF):
		if want := u.request.Trailer.Get(trailerDigest); want != "" && want != u.Digest() {
			return n, run.Errorf(run.CodeInvalid, "the archive is not what was sent: its digest should be %s", want)
		}
	case err != nil:
		u.broken = true
		err = &run.Error{Code: run.CodeUnreadable, Message: "the archive broke off", Err: err}
	}
	return n, err
}
