package run

import (
	"context"
	"io"
	"time"
)

// Artifacts is what clients may ask about the artifacts of runs: those of the
// newest attempt of each task. Implementations are safe for concurrent use.
type Artifacts interface {
	// Artifacts lists those of a run, by task and name. Errors: not_found.
	Artifacts(ctx context.Context, id ID) ([]Artifact, error)
	// OpenArtifact opens an artifact from an offset on. Close must be called on
	// what it returns. Errors: not_found (the run, or the artifact), gone (it was
	// removed by its age), invalid (the offset).
	OpenArtifact(ctx context.Context, ref ArtifactRef, offset int64) (Artifact, io.ReadCloser, error)
	// OpenArtifactFile opens one file of an artifact. Errors: those of
	// OpenArtifact; not_found, invalid (the path is none of a file).
	OpenArtifactFile(ctx context.Context, ref ArtifactRef, path string) (ArtifactEntry, io.ReadCloser, error)
	// ArtifactEntries lists up to n of what is in an artifact, and says whether
	// there is more. Errors: those of OpenArtifact.
	ArtifactEntries(ctx context.Context, ref ArtifactRef, n int) ([]ArtifactEntry, bool, error)
}

// ArtifactRef names an artifact.
type ArtifactRef struct {
	Run  ID
	Task string
	Name string
}

// Artifact is files of a task that are kept for people, as one archive.
type Artifact struct {
	Task    string
	Name    string
	Size    int64
	Digest  string // sha256:<hex>, of the archive
	Created time.Time
	Expires time.Time // zero: it goes with its run
	Removed bool      // by its age
	Tests   *TestSummary
}

// EntryType says what an entry of an archive is.
type EntryType string

// The types of entry.
const (
	EntryFile      EntryType = "file"
	EntryDirectory EntryType = "directory"
	EntrySymlink   EntryType = "symlink"
	EntryHardlink  EntryType = "hardlink"
)

// ArtifactEntry is one file, directory or link of an artifact.
type ArtifactEntry struct {
	Path     string
	Type     EntryType
	Mode     uint32 // permissions
	Size     int64
	Modified time.Time
	Target   string // of a link
}
