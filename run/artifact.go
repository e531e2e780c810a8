package run

import (
	"context"
	"io"
	"slices"
	"time"
)

// Artifacts is the API for clients that read the artifacts of runs: those of
// the newest attempt of each task. Implementations are safe for concurrent use.
type Artifacts interface {
	// Artifacts lists the artifacts of a run, by task and name. Errors:
	// not_found.
	Artifacts(ctx context.Context, id ID) ([]Artifact, error)
	// OpenArtifact opens an artifact at an offset. The caller must call Close
	// on the reader. Errors: not_found (the run, or the artifact), gone (it was
	// removed because of its age), invalid (the offset).
	OpenArtifact(ctx context.Context, ref ArtifactRef, offset int64) (Artifact, io.ReadCloser, error)
	// OpenArtifactFile opens one file of an artifact. Errors: those of
	// OpenArtifact; not_found, invalid (the path does not name a file).
	OpenArtifactFile(ctx context.Context, ref ArtifactRef, path string) (ArtifactEntry, io.ReadCloser, error)
	// ArtifactEntries lists up to n entries of an artifact, and reports whether
	// there are more. Errors: those of OpenArtifact.
	ArtifactEntries(ctx context.Context, ref ArtifactRef, n int) ([]ArtifactEntry, bool, error)
}

// ArtifactRef names an artifact.
type ArtifactRef struct {
	Run  ID
	Task string
	Name string
}

// Artifact is a set of files of a task, stored as one archive for users.
type Artifact struct {
	Task    string
	Name    string
	Size    int64
	Digest  string // sha256:<hex>, of the archive
	Created time.Time
	Expires time.Time // zero: it is removed with its run
	Removed bool      // because of its age
	Tests   *TestSummary
}

// EntryType is the type of an entry of an archive.
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

// MaxFailedTests is the most names of failed tests in a summary.
const MaxFailedTests = 100

// TestSummary summarizes test reports.
type TestSummary struct {
	Tests   int `json:"tests"`
	Failed  int `json:"failed"` // including tests with errors
	Skipped int `json:"skipped"`
	// FailedNames are the names of the first MaxFailedTests that failed, in order.
	FailedNames []string `json:"failed_names,omitempty"`
	// Faults name the reports that could not be read, and say why.
	Faults []string `json:"faults,omitempty"`
}

// maxFaultyReports is the most unreadable reports that a summary names.
const maxFaultyReports = 10

// Add adds another summary.
func (t *TestSummary) Add(o TestSummary) {
	t.Tests += o.Tests
	t.Failed += o.Failed
	t.Skipped += o.Skipped
	t.FailedNames = firstOf(MaxFailedTests, t.FailedNames, o.FailedNames)
	t.Faults = firstOf(maxFaultyReports, t.Faults, o.Faults)
}

func firstOf(n int, a, b []string) []string {
	out := slices.Concat(a, b)
	return slices.Clip(out[:min(n, len(out))])
}
