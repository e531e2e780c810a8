package runtest

import (
	"context"
	"io"

	"github.com/drover-run/drover/run"
)

// Desk is a run.ExecutorAPI made of functions.
type Desk struct {
	RegisterFunc    func(context.Context, run.Executor) (run.Wanted, error)
	RenewFunc       func(context.Context, run.Renewal) (run.Wanted, error)
	ClaimFunc       func(context.Context, run.ClaimRequest) (run.Definition, error)
	ShipFunc        func(context.Context, run.FrameBatch) error
	ClaimStatesFunc func(ctx context.Context, executor string, keys []run.Key) (map[run.Key]run.ClaimState, error)

	FindArchivesFunc func(context.Context, run.ArchiveQuery) ([]run.ArchiveRef, error)
	OpenArchiveFunc  func(context.Context, run.ArchiveRead) (io.ReadCloser, error)
	BeginArchiveFunc func(context.Context, run.ArchiveSave) (run.ArchiveUpload, error)
	SaveArchiveFunc  func(ctx context.Context, u run.ArchiveUpload, content io.Reader) (run.ArchiveInfo, error)
	// LocateArchiveFunc returns the URL of an archive; nil: there is none.
	LocateArchiveFunc func(context.Context, run.ArchiveRead) (string, error)
}

var (
	_ run.Desk           = (*Desk)(nil)
	_ run.ArchiveLocator = (*Desk)(nil)
)

// Register implements run.ExecutorAPI.
func (d *Desk) Register(ctx context.Context, e run.Executor) (run.Wanted, error) {
	if d.RegisterFunc == nil {
		return run.Wanted{}, unset("Register")
	}
	return d.RegisterFunc(ctx, e)
}

// Renew implements run.ExecutorAPI.
func (d *Desk) Renew(ctx context.Context, r run.Renewal) (run.Wanted, error) {
	if d.RenewFunc == nil {
		return run.Wanted{}, unset("Renew")
	}
	return d.RenewFunc(ctx, r)
}

// Claim implements run.ExecutorAPI.
func (d *Desk) Claim(ctx context.Context, c run.ClaimRequest) (run.Definition, error) {
	if d.ClaimFunc == nil {
		return run.Definition{}, unset("Claim")
	}
	return d.ClaimFunc(ctx, c)
}

// Ship implements run.ExecutorAPI.
func (d *Desk) Ship(ctx context.Context, b run.FrameBatch) error {
	if d.ShipFunc == nil {
		return unset("Ship")
	}
	return d.ShipFunc(ctx, b)
}

// ClaimStates implements run.ExecutorAPI.
func (d *Desk) ClaimStates(ctx context.Context, executor string, keys []run.Key) (map[run.Key]run.ClaimState, error) {
	if d.ClaimStatesFunc == nil {
		return nil, unset("ClaimStates")
	}
	return d.ClaimStatesFunc(ctx, executor, keys)
}

// LocateArchive implements run.ArchiveLocator.
func (d *Desk) LocateArchive(ctx context.Context, r run.ArchiveRead) (string, error) {
	if d.LocateArchiveFunc == nil {
		return "", nil
	}
	return d.LocateArchiveFunc(ctx, r)
}

// LocateArtifact implements run.ArchiveLocator: an ExecutorAPI has no
// artifacts.
func (d *Desk) LocateArtifact(context.Context, run.ArtifactRef, int64) (run.Artifact, string, error) {
	return run.Artifact{}, "", unset("LocateArtifact")
}
