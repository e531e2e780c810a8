package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

// Artifact names an artifact, or a file of one.
type Artifact struct {
	Run, Task, Name string
	Path            string // "": all of it
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
	r := &artifactReader{ctx: ctx, client: c, of: a}
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
}

func (r *artifactReader) open() error {
	params := &api.GetArtifactParams{Path: r.of.Path}
	if r.at > 0 {
		params.Range = fmt.Sprintf("bytes=%d-", r.at)
	}
	resp, err := r.client.api.GetArtifact(r.ctx, r.of.Run, r.of.Task, r.of.Name, params)
	if err != nil {
		return r.client.unreachable(r.ctx, err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		return errors.Join(r.client.refused(resp, body), err, resp.Body.Close())
	}
	if r.body != nil {
		_ = r.body.Close() // it broke
	}
	r.body, r.came = resp.Body, false
	return nil
}

// Read implements io.Reader.
func (r *artifactReader) Read(b []byte) (int, error) {
	for {
		n, err := r.body.Read(b)
		r.at += int64(n)
		r.came = r.came || n > 0
		switch {
		case err == nil || errors.Is(err, io.EOF):
			return n, err
		case n > 0:
			return n, nil // and the fault with the next read
		case r.ctx.Err() != nil || !r.came || r.of.Path != "":
			r.failed = &run.Error{Code: run.CodeUnavailable, Message: "the artifact broke off", Err: err}
			return 0, r.failed
		}
		if r.failed = r.open(); r.failed != nil {
			return 0, r.failed
		}
	}
}
