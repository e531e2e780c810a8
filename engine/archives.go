package engine

import (
	"context"
	"io"

	"github.com/drover-run/drover/run"
)

func errNoArchives() error {
	return run.Errorf(run.CodeNotSupported, "archives are not kept here")
}

// FindArchives implements run.ArchiveDesk.
func (e *Engine) FindArchives(context.Context, run.ArchiveQuery) ([]run.ArchiveRef, error) {
	return nil, errNoArchives()
}

// OpenArchive implements run.ArchiveDesk.
func (e *Engine) OpenArchive(context.Context, run.ArchiveRead) (io.ReadCloser, error) {
	return nil, errNoArchives()
}

// BeginArchive implements run.ArchiveDesk.
func (e *Engine) BeginArchive(context.Context, run.ArchiveSave) (run.ArchiveUpload, error) {
	return run.ArchiveUpload{}, errNoArchives()
}

// SaveArchive implements run.ArchiveDesk.
func (e *Engine) SaveArchive(context.Context, run.ArchiveUpload, io.Reader) (run.ArchiveInfo, error) {
	return run.ArchiveInfo{}, errNoArchives()
}
