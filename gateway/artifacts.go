package gateway

import (
	"cmp"
	"fmt"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

// maxEntries bounds the entries of an artifact in one listing.
const maxEntries = 10_000

func (s *Server) artifactsOf() (run.Artifacts, error) {
	if s.artifacts == nil {
		return nil, run.Errorf(run.CodeNotSupported, "this gateway does not serve artifacts")
	}
	return s.artifacts, nil
}

// ListArtifacts implements ServerInterface.
func (s *Server) ListArtifacts(c echo.Context, id api.RunID) error {
	artifacts, err := s.artifactsOf()
	if err != nil {
		return err
	}
	list, err := artifacts.Artifacts(c.Request().Context(), run.ID(id))
	if err != nil {
		return err
	}
	v := api.Artifacts{Artifacts: make([]api.Artifact, len(list))}
	var all run.TestSummary
	for i, a := range list {
		v.Artifacts[i] = api.Artifact{
			Task: a.Task, Name: a.Name, Size: a.Size, Digest: a.Digest, CreatedAt: a.Created.UTC(), ExpiresAt: a.Expires.UTC(), Removed: a.Removed,
			Tests: viewTests(a.Tests),
		}
		if a.Expires.IsZero() {
			v.Artifacts[i].ExpiresAt = a.Expires
		}
		if a.Tests != nil {
			all.Add(*a.Tests)
		}
	}
	v.Tests = viewTests(&all)
	return writeJSON(c, http.StatusOK, mediaJSON, v)
}

func viewTests(t *run.TestSummary) api.TestSummary {
	if t == nil {
		return api.TestSummary{}
	}
	return api.TestSummary{Tests: t.Tests, Failed: t.Failed, Skipped: t.Skipped, FailedNames: t.FailedNames, Faults: t.Faults}
}

// GetArtifact implements ServerInterface.
func (s *Server) GetArtifact(c echo.Context, id api.RunID, task api.TaskName, name string, params api.GetArtifactParams) error {
	artifacts, err := s.artifactsOf()
	if err != nil {
		return err
	}
	ref := run.ArtifactRef{Run: run.ID(id), Task: task, Name: name}
	ctx, closeStream := s.streams.open(c.Request().Context())
	defer closeStream()
	h := c.Response().Header()
	if params.Path != "" {
		entry, content, err := artifacts.OpenArtifactFile(ctx, ref, params.Path)
		if err != nil {
			return err
		}
		// The files are untrusted: a browser must not execute them in the gateway's origin.
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(entry.Path)}))
		h.Set("Content-Security-Policy", "sandbox")
		h.Set("Content-Length", strconv.FormatInt(entry.Size, 10))
		media := mime.TypeByExtension(path.Ext(entry.Path))
		return s.send(ctx, c, http.StatusOK, cmp.Or(media, "application/octet-stream"), content)
	}
	from, err := rangeFrom(params.Range)
	if err != nil {
		return err
	}
	if locator, ok := artifacts.(run.ArchiveLocator); ok && params.DroverDirect {
		artifact, address, err := locator.LocateArtifact(ctx, ref, from)
		if err != nil {
			return err
		}
		if address != "" {
			h.Set("ETag", strconv.Quote(artifact.Digest))
			return redirectToStore(c, address)
		}
	}
	artifact, content, err := artifacts.OpenArtifact(ctx, ref, from)
	if err != nil {
		return err
	}
	status := http.StatusOK
	h.Set("ETag", strconv.Quote(artifact.Digest))
	h.Set("Accept-Ranges", "bytes")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name + ".tar.zst"}))
	h.Set("Content-Length", strconv.FormatInt(artifact.Size-from, 10))
	if params.Range != "" && from < artifact.Size {
		status = http.StatusPartialContent
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, artifact.Size-1, artifact.Size))
	}
	return s.send(ctx, c, status, mediaZstd, content)
}

// rangeFrom parses the only supported form of a range: all bytes from an offset
// on.
func rangeFrom(header string) (int64, error) {
	if header == "" {
		return 0, nil
	}
	text, ok := strings.CutPrefix(header, "bytes=")
	text, open := strings.CutSuffix(text, "-")
	from, err := strconv.ParseInt(text, 10, 64)
	if !ok || !open || err != nil || from < 0 {
		return 0, run.Errorf(run.CodeInvalid, "the range must have the form bytes=N-, not %q", header)
	}
	return from, nil
}

// ListArtifactEntries implements ServerInterface.
func (s *Server) ListArtifactEntries(c echo.Context, id api.RunID, task api.TaskName, name string) error {
	artifacts, err := s.artifactsOf()
	if err != nil {
		return err
	}
	list, more, err := artifacts.ArtifactEntries(c.Request().Context(), run.ArtifactRef{Run: run.ID(id), Task: task, Name: name}, maxEntries)
	if err != nil {
		return err
	}
	v := api.ArtifactEntries{Entries: make([]api.ArtifactEntry, len(list)), More: more}
	for i, e := range list {
		v.Entries[i] = api.ArtifactEntry{
			Path: e.Path, Type: api.ArtifactEntryType(e.Type), Mode: fmt.Sprintf("%04o", e.Mode), Size: e.Size, ModifiedAt: e.Modified.UTC(), Target: e.Target,
		}
	}
	return writeJSON(c, http.StatusOK, mediaJSON, v)
}
