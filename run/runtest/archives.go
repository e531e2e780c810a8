package runtest

import (
	"context"
	"io"

	"github.com/drover-run/drover/run"
)

// FindArchives implements run.ArchiveAPI.
func (a *ExecutorAPI) FindArchives(ctx context.Context, q run.ArchiveQuery) ([]run.ArchiveRef, error) {
	if a.FindArchivesFunc == nil {
		return nil, unset("FindArchives")
	}
	return a.FindArchivesFunc(ctx, q)
}

// OpenArchive implements run.ArchiveAPI.
func (a *ExecutorAPI) OpenArchive(ctx context.Context, r run.ArchiveRead) (io.ReadCloser, error) {
	if a.OpenArchiveFunc == nil {
		return nil, unset("OpenArchive")
	}
	return a.OpenArchiveFunc(ctx, r)
}

// BeginArchive implements run.ArchiveAPI.
func (a *ExecutorAPI) BeginArchive(ctx context.Context, s run.ArchiveSave) (run.ArchiveUpload, error) {
	if a.BeginArchiveFunc == nil {
		return run.ArchiveUpload{}, unset("BeginArchive")
	}
	return a.BeginArchiveFunc(ctx, s)
}

// SaveArchive implements run.ArchiveAPI.
func (a *ExecutorAPI) SaveArchive(ctx context.Context, u run.ArchiveUpload, content io.Reader) (run.ArchiveInfo, error) {
	if a.SaveArchiveFunc == nil {
		return run.ArchiveInfo{}, unset("SaveArchive")
	}
	return a.SaveArchiveFunc(ctx, u, content)
}
