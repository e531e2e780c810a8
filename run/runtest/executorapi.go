package runtest

import (
	"context"
	"io"

	"github.com/drover-run/drover/run"
)

// ExecutorAPI is a run.ExecutorAPI made of functions.
type ExecutorAPI struct {
	RegisterFunc     func(context.Context, run.Executor) (run.DesiredState, error)
	RenewFunc        func(context.Context, run.Renewal) (run.DesiredState, error)
	ClaimFunc        func(context.Context, run.ClaimRequest) (run.Definition, error)
	AppendFramesFunc func(context.Context, run.FrameBatch) error
	ClaimStatesFunc  func(ctx context.Context, executor string, keys []run.Key) (map[run.Key]run.ClaimState, error)

	FindArchivesFunc func(context.Context, run.ArchiveQuery) ([]run.ArchiveRef, error)
	OpenArchiveFunc  func(context.Context, run.ArchiveRead) (io.ReadCloser, error)
	BeginArchiveFunc func(context.Context, run.ArchiveSave) (run.ArchiveUpload, error)
	SaveArchiveFunc  func(ctx context.Context, u run.ArchiveUpload, content io.Reader) (run.ArchiveInfo, error)
	// LocateArchiveFunc returns the URL of an archive; nil: there is none.
	LocateArchiveFunc func(context.Context, run.ArchiveRead) (string, error)
}

var (
	_ run.ExecutorAPI    = (*ExecutorAPI)(nil)
	_ run.ArchiveLocator = (*ExecutorAPI)(nil)
)

// Register implements run.ExecutorAPI.
func (a *ExecutorAPI) Register(ctx context.Context, e run.Executor) (run.DesiredState, error) {
	if a.RegisterFunc == nil {
		return run.DesiredState{}, unset("Register")
	}
	return a.RegisterFunc(ctx, e)
}

// Renew implements run.ExecutorAPI.
func (a *ExecutorAPI) Renew(ctx context.Context, r run.Renewal) (run.DesiredState, error) {
	if a.RenewFunc == nil {
		return run.DesiredState{}, unset("Renew")
	}
	return a.RenewFunc(ctx, r)
}

// Claim implements run.ExecutorAPI.
func (a *ExecutorAPI) Claim(ctx context.Context, c run.ClaimRequest) (run.Definition, error) {
	if a.ClaimFunc == nil {
		return run.Definition{}, unset("Claim")
	}
	return a.ClaimFunc(ctx, c)
}

// AppendFrames implements run.ExecutorAPI.
func (a *ExecutorAPI) AppendFrames(ctx context.Context, b run.FrameBatch) error {
	if a.AppendFramesFunc == nil {
		return unset("Ship")
	}
	return a.AppendFramesFunc(ctx, b)
}

// ClaimStates implements run.ExecutorAPI.
func (a *ExecutorAPI) ClaimStates(ctx context.Context, executor string, keys []run.Key) (map[run.Key]run.ClaimState, error) {
	if a.ClaimStatesFunc == nil {
		return nil, unset("ClaimStates")
	}
	return a.ClaimStatesFunc(ctx, executor, keys)
}

// LocateArchive implements run.ArchiveLocator.
func (a *ExecutorAPI) LocateArchive(ctx context.Context, r run.ArchiveRead) (string, error) {
	if a.LocateArchiveFunc == nil {
		return "", nil
	}
	return a.LocateArchiveFunc(ctx, r)
}

// LocateArtifact implements run.ArchiveLocator: an ExecutorAPI has no
// artifacts.
func (a *ExecutorAPI) LocateArtifact(context.Context, run.ArtifactRef, int64) (run.Artifact, string, error) {
	return run.Artifact{}, "", unset("LocateArtifact")
}
