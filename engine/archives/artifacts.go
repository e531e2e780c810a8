package archives

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"

	"github.com/drover-run/drover/internal/archive"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// Artifacts implements run.Artifacts.
func (s *Service) Artifacts(ctx context.Context, id run.ID) ([]run.Artifact, error) {
	found, err := s.store.Artifacts(ctx, id)
	if err != nil {
		return nil, err
	}
	out := make([]run.Artifact, len(found))
	for i, a := range found {
		out[i] = artifactOf(a)
	}
	return out, nil
}

func artifactOf(a records.Archive) run.Artifact {
	return run.Artifact{
		Task: a.Task, Name: a.Name, Size: a.Size, Digest: a.Digest, Created: a.Created, Expires: a.Expires, Removed: a.Object == "", Tests: a.Tests,
	}
}

// OpenArtifact implements run.Artifacts.
func (s *Service) OpenArtifact(ctx context.Context, ref run.ArtifactRef, offset int64) (run.Artifact, io.ReadCloser, error) {
	found, err := s.artifact(ctx, ref, offset)
	if err != nil {
		return run.Artifact{}, nil, err
	}
	content, err := s.objects.GetArchive(ctx, found.Object, offset)
	if err != nil {
		return run.Artifact{}, nil, objectError(err)
	}
	return artifactOf(found), s.metrics.countingReader(content, found.Kind, found.Size-offset), nil
}

// LocateArtifact implements run.ArchiveLocator.
func (s *Service) LocateArtifact(ctx context.Context, ref run.ArtifactRef, offset int64) (run.Artifact, string, error) {
	found, err := s.artifact(ctx, ref, offset)
	if err != nil {
		return run.Artifact{}, "", err
	}
	return artifactOf(found), s.locate(ctx, found.Kind, found.Object, found.Size), nil
}

// artifact looks up an artifact that is to be read from an offset.
func (s *Service) artifact(ctx context.Context, ref run.ArtifactRef, offset int64) (records.Archive, error) {
	if err := s.hasArchives(); err != nil {
		return records.Archive{}, err
	}
	all, err := s.store.Artifacts(ctx, ref.Run)
	if err != nil {
		return records.Archive{}, err
	}
	i := slices.IndexFunc(all, func(a records.Archive) bool { return a.Task == ref.Task && a.Name == ref.Name })
	if i < 0 {
		return records.Archive{}, run.Errorf(run.CodeNotFound, "task %s of run %s has no artifact %s", ref.Task, ref.Run, ref.Name)
	}
	found := all[i]
	switch {
	case found.Object == "":
		return records.Archive{}, run.Errorf(run.CodeGone, "the artifact %s was removed: it was kept until %s", ref.Name, found.Expires.UTC())
	case offset < 0 || offset > found.Size:
		return records.Archive{}, run.Errorf(run.CodeInvalid, "the artifact has %d bytes; it cannot be read from %d on", found.Size, offset)
	}
	return found, nil
}

func entryOf(e archive.Entry) run.ArtifactEntry {
	out := run.ArtifactEntry{Path: e.Name, Type: run.EntryFile, Mode: uint32(e.Mode.Perm()), Size: e.Size, Modified: e.Time, Target: e.Link}
	switch {
	case e.Mode.IsDir():
		out.Type = run.EntryDirectory
	case e.Mode&fs.ModeSymlink != 0:
		out.Type = run.EntrySymlink
	case e.Link != "":
		out.Type = run.EntryHardlink
	}
	return out
}

// closers closes all elements in order.
type closers []io.Closer

// Close implements io.Closer.
func (c closers) Close() error {
	var errs error
	for _, closer := range c {
		errs = errors.Join(errs, closer.Close())
	}
	return errs
}
