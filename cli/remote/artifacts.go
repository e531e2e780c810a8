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

// Artifact names an artifact, or a file of one.
type Artifact struct {
	Run, Task, Name string
	Path            string // "": all of it
	Direct          bool   // from the object store where the gateway sends there
}

// Artifacts lists those of a run.
func (c *Client) Artifacts(ctx context.Context, id string) (Answer[api.Artifacts], error) {
	return call[api.Artifacts](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.api.ListArtifacts(ctx, id) })
}

// ArtifactEntries lists what is in an artifact.
func (c *Client) ArtifactEntries(ctx context.Context, a Artifact) (Answer[api.ArtifactEntries], error) {
	return call[api.ArtifactEntries](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.api.ListArtifactEntries(ctx, a.Run, a.Task, a.Name)
	})
}

// GetArtifact gives an artifact, or the file of it that is named, to read. The
// whole of an artifact that breaks off is gone on with as long as something
// comes.
func (c *Client) GetArtifact(ctx context.Context, a Artifact, read func(context.Context, io.Reader) error) error {
	r := &artifactReader{ctx: ctx, client: c, of: a, sum: sha256.New()}
	if err := r.open(); err != nil {
		return err
	}
	err := read(ctx, r)
	if r.failed != nil { // what the reader made of it says less
		err = r.failed
	}
	return errors.Join(err, r.body.Close())
}

// artifactReader reads an artifact over several calls.
type artifactReader struct {
	ctx    context.Context //nolint:containedctx // of one call
	client *Client
	of     Artifact
	body   io.ReadCloser
	at     int64
	came   bool // something since the last call
	failed error
	sum    hash.Hash
	digest string // of the whole, "" where it is not known
	direct bool   // what is read comes from the object store
}

func (r *artifactReader) open() error {
	resp, err := r.ask(r.of.Direct)
	if r.direct = err == nil && resp.StatusCode == http.StatusTemporaryRedirect; r.direct {
		_ = resp.Body.Close()                                      // it is empty
		if resp, err = r.follow(resp); resp == nil && err == nil { //nolint:bodyclose // it is read to its end by the caller
			r.direct, r.of.Direct = false, false
			resp, err = r.ask(false) //nolint:bodyclose // likewise
		}
	}
	if err != nil {
		return err
	}
	if r.body != nil {
		_ = r.body.Close() // it broke
	}
	r.body, r.came = resp.Body, false
	return nil
}

// ask asks the gateway for what was not read yet. With direct it may answer by a
// redirect.
func (r *artifactReader) ask(direct bool) (*http.Response, error) {
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
	return nil, errors.Join(r.client.refused(resp, body), err, resp.Body.Close())
}

// follow asks an object store, without what is for the gateway alone. It returns
// nil where the store is out of reach, or says no.
func (r *artifactReader) follow(redirect *http.Response) (*http.Response, error) {
	req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, redirect.Header.Get("Location"), nil)
	if err != nil {
		return nil, run.Errorf(run.CodeInternal, "%s sends to no place", r.client.opts.Server)
	}
	status := http.StatusOK
	if r.at > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", r.at))
		status = http.StatusPartialContent
	}
	resp, err := r.client.direct.Do(req)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // there is the other way, and the error has a URL that is nobody's to see
	}
	if resp.StatusCode != status {
		_ = resp.Body.Close()
		return nil, nil //nolint:nilnil // likewise
	}
	return resp, nil
}

// Read implements io.Reader.
func (r *artifactReader) Read(b []byte) (int, error) {
	for {
		n, err := r.body.Read(b)
		r.at += int64(n)
		r.came = r.came || n > 0
		r.sum.Write(b[:n])
		switch {
		case errors.Is(err, io.EOF):
			return n, r.checked(err)
		case err == nil:
			return n, nil
		case n > 0:
			return n, nil // and the fault with the next read
		case r.direct && !r.came:
			r.of.Direct = false // and once more, through the gateway
		case r.ctx.Err() != nil || !r.came || r.of.Path != "":
			r.failed = &run.Error{Code: run.CodeUnavailable, Message: "the artifact broke off", Err: err}
			return 0, r.failed
		}
		if r.failed = r.open(); r.failed != nil {
			return 0, r.failed
		}
	}
}

// checked returns the end of an artifact, or that it is another one.
func (r *artifactReader) checked(end error) error {
	want, ok := strings.CutPrefix(r.digest, "sha256:")
	if got := hex.EncodeToString(r.sum.Sum(nil)); ok && got != want {
		r.failed = run.Errorf(run.CodeInternal, "the artifact is not what was saved: its digest is sha256:%s, not %s", got, r.digest)
		return r.failed
	}
	return end
}
