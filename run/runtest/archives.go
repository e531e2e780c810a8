package runtest

import (
	"context"
	"io"

	"github.com/drover-run/drover/run"
)

// FindArchives implements run.ArchiveAPI.
func (d *ExecutorAPI) FindArchives(ctx context.Context, q run.ArchiveQuery) ([]run.ArchiveRef, error) {
	if d.FindArchivesFunc == nil {
		return nil, unset("FindArchives")
	}
	return d.FindArchivesFunc(ctx, q)
}

// OpenArchive implements run.ArchiveAPI.
func (d *ExecutorAPI) OpenArchive(ctx context.Context, r run.ArchiveRead) (io.ReadCloser, error) {
	if d.OpenArchiveFunc == nil {
		return nil, unset("OpenArchive")
	}
	return d.OpenArchiveFunc(ctx, r)
}

// BeginArchive implements run.ArchiveAPI.
func (d *ExecutorAPI) BeginArchive(ctx context.Context, s run.ArchiveSave) (run.ArchiveUpload, error) {
	if d.BeginArchiveFunc == nil {
		return run.ArchiveUpload{}, unset("BeginArchive")
	}
	return d.BeginArchiveFunc(ctx, s)
}

// SaveArchive implements run.ArchiveAPI.
func (d *ExecutorAPI) SaveArchive(ctx context.Context, u run.ArchiveUpload, content io.Reader) (run.ArchiveInfo, error) {
	if d.SaveArchiveFunc == nil {
		return run.ArchiveInfo{}, unset("SaveArchive")
	}
	return d.SaveArchiveFunc(ctx, u, content)
}
