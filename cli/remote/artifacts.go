package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

// Artifact identifies an artifact, or a file of one.
type Artifact struct {
	Run, Task, Name string
	Path            string // "": the whole artifact
	Direct          bool   // read from the object store if the gateway redirects there
}

// Artifacts returns the artifacts of a run.
func (c *Client) Artifacts(ctx context.Context, id string) (Answer[api.Artifacts], error) {
	return call[api.Artifacts](ctx, c.caller, func(ctx context.Context) (*http.Response, error) { return c.api.ListArtifacts(ctx, id) })
}

// ArtifactEntries returns the entries of an artifact.
func (c *Client) ArtifactEntries(ctx context.Context, a Artifact) (Answer[api.ArtifactEntries], error) {
	return call[api.ArtifactEntries](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.ListArtifactEntries(ctx, a.Run, a.Task, a.Name)
	})
}

// GetArtifact passes an artifact, or one file of it, to read. It resumes the
// download of a whole artifact that is cut off, as long as there is progress.
func (c *Client) GetArtifact(ctx context.Context, a Artifact, read func(context.Context, io.Reader) error) error {
	r := &artifactReader{ctx: ctx, client: c, of: a, sum: sha256.New()}
	if err := r.open(); err != nil {
		return err
	}
	err := read(ctx, r)
	if r.failed != nil { // the error of read is a consequence
		err = r.failed
	}
	return errors.Join(err, r.body.Close())
}

// artifactReader reads an artifact over several calls.
type artifactReader struct {
	ctx        context.Context //nolint:containedctx // of one call
	client     *Client
	of         Artifact
	body       io.ReadCloser
	at         int64
	progressed bool // bytes were read since the last request
	failed     error
	sum        hash.Hash
	digest     string // of the whole artifact; "" if unknown
	direct     bool   // the body comes from the object store
}

func (r *artifactReader) open() error {
	resp, err := r.request(r.of.Direct)
	if r.direct = err == nil && resp.StatusCode == http.StatusTemporaryRedirect; r.direct {
		_ = resp.Body.Close()                                      // the body of a redirect is empty
		if resp, err = r.follow(resp); resp == nil && err == nil { //nolint:bodyclose // the caller reads it to its end
			r.direct, r.of.Direct = false, false
			resp, err = r.request(false) //nolint:bodyclose // the caller reads it to its end
		}
	}
	if err != nil {
		return err
	}
	if r.body != nil {
		_ = r.body.Close() // the connection is broken
	}
	r.body, r.progressed = resp.Body, false
	return nil
}

// request requests the rest of the artifact from the gateway. With direct, the
// gateway may answer with a redirect.
func (r *artifactReader) request(direct bool) (*http.Response, error) {
	params := &api.GetArtifactParams{Path: r.of.Path, DroverDirect: direct}
	if r.at > 0 {
		params.Range = fmt.Sprintf("bytes=%d-", r.at)
	}
	resp, err := r.client.api.GetArtifact(r.ctx, r.of.Run, r.of.Task, r.of.Name, params)
	if err != nil {
		return nil, r.client.unreachable(r.ctx, err)
	}
	if tag, err := strconv.Unquote(resp.Header.Get("ETag")); err == nil && r.of.Path == "" {
		r.digest = tag
	}
	if resp.StatusCode < http.StatusMultipleChoices || direct && resp.StatusCode == http.StatusTemporaryRedirect {
		return resp, nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return nil, errors.Join(r.client.statusError(resp, body), err, resp.Body.Close())
}

// follow requests the artifact from an object store, without the headers for the
// gateway. It returns nil if the store is unreachable or refuses.
func (r *artifactReader) follow(redirect *http.Response) (*http.Response, error) {
	req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, redirect.Header.Get("Location"), nil)
	if err != nil {
		return nil, run.Errorf(run.CodeInternal, "%s sent a redirect without a location", r.client.opts.Server)
	}
	status := http.StatusOK
	if r.at > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", r.at))
		status = http.StatusPartialContent
	}
	resp, err := r.client.direct.Do(req)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // the caller falls back to the gateway; the error contains the URL, which is a credential
	}
	if resp.StatusCode != status {
		_ = resp.Body.Close()
		return nil, nil //nolint:nilnil // nil means: use the gateway
	}
	return resp, nil
}

// Read implements io.Reader.
func (r *artifactReader) Read(b []byte) (int, error) {
	for {
		n, err := r.body.Read(b)
		r.at += int64(n)
		r.progressed = r.progressed || n > 0
		r.sum.Write(b[:n])
		switch {
		case errors.Is(err, io.EOF):
			return n, r.checked(err)
		case err == nil:
			return n, nil
		case n > 0:
			return n, nil // the next read returns the error
		case r.direct && !r.progressed:
			r.of.Direct = false // retry through the gateway
		case r.ctx.Err() != nil || !r.progressed || r.of.Path != "":
			r.failed = &run.Error{Code: run.CodeUnavailable, Message: "the download was cut off", Err: err}
			return 0, r.failed
		}
		if r.failed = r.open(); r.failed != nil {
			return 0, r.failed
		}
	}
}

// checked returns the error at the end of an artifact: end, or an error if the
// digest is wrong.
func (r *artifactReader) checked(end error) error {
	want, ok := strings.CutPrefix(r.digest, "sha256:")
	if got := hex.EncodeToString(r.sum.Sum(nil)); ok && got != want {
		r.failed = run.Errorf(run.CodeInternal, "the artifact differs from the saved one: its digest is sha256:%s, not %s", got, r.digest)
		return r.failed
	}
	return end
}
