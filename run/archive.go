package run

import (
	"context"
	"io"
	"path"
	"slices"
	"strings"
	"time"
)

// ArchiveAPI is the part of ExecutorAPI through which executors transfer
// archives. An archive is a stream in the format of package archive; here it is
// opaque bytes.
//
// A step restores archives by FindArchives, and then by OpenArchive for each in order.
// A step saves an archive by BeginArchive, and then, unless the archive is saved
// already, by SaveArchive with the packed content. A step is named by its key and its
// number from 0; the specification, not the caller, decides what the step saves and
// restores. The caller must be the executor that holds the open claim of exactly that
// key, or another member of its set. Otherwise all calls fail with CodeNotFound (no
// such claim, or not of this executor) or CodeConflict (the claim is closed).
//
// References are opaque, signed, valid for one key and one archive, and expire. Calls
// with an expired reference fail with CodeGone; the caller must then begin again.
type ArchiveAPI interface {
	// FindArchives lists the archives that a restore step unpacks, in order:
	// later ones win. For a workspace it lists what all tasks saved on which
	// this one depends, directly or through others, by level and then name;
	// there may be none. For a cache it lists one or none. Errors: invalid (not
	// a restore step; bad keys), gone (a workspace was removed since its run
	// ended).
	FindArchives(ctx context.Context, q ArchiveQuery) ([]ArchiveRef, error)
	// OpenArchive reads an archive from an offset on. The stream may break off;
	// the caller then continues at the offset that it has reached. The reader
	// fails with CodeInvalid at the end of the archive if the whole archive
	// does not match its digest. Errors: gone (the reference expired, or the
	// archive was removed), invalid (the reference is not genuine, or is for
	// another archive; the offset).
	OpenArchive(ctx context.Context, r ArchiveRead) (io.ReadCloser, error)
	// BeginArchive prepares to save an archive. If Saved is set in the result,
	// there is nothing to send: the step has saved it before, or a cache of
	// that key exists. Errors: invalid (not a save step; a bad key).
	BeginArchive(ctx context.Context, s ArchiveSave) (ArchiveUpload, error)
	// SaveArchive stores content to its end, and then makes it visible in one
	// transaction. If reading content fails, or anything else does, it never
	// becomes visible; to retry, call BeginArchive again with content from its
	// start. Content must fail if its archive is incomplete. Errors: too_large,
	// gone (the reference expired), invalid (it is not genuine; not an
	// archive), conflict (the claim was closed meanwhile), and those of content
	// unchanged.
	SaveArchive(ctx context.Context, u ArchiveUpload, content io.Reader) (ArchiveInfo, error)
}

// ArchiveLocator is an optional interface of an ArchiveAPI or of Artifacts: it
// returns a URL from which the store serves the bytes of an archive directly. A
// URL is valid for some minutes and for every client that has it, so it must
// not appear in logs and errors; "" means that there is none for this archive.
//
// The client requests the URL without credentials, as a range from the offset on, and
// checks the digest. If the store cannot be reached or refuses the request, the client
// reads by the other calls.
type ArchiveLocator interface {
	// LocateArchive returns the URL of the archive that OpenArchive would read,
	// with the errors of OpenArchive.
	LocateArchive(ctx context.Context, r ArchiveRead) (url string, err error)
	// LocateArtifact returns the URL of the artifact that OpenArtifact would
	// read, with the errors of OpenArtifact.
	LocateArtifact(ctx context.Context, ref ArtifactRef, offset int64) (a Artifact, url string, err error)
}

// DigestReader is content that computes the digest, as in ArchiveInfo, of what was
// read of it so far. The store then need not compute it again.
type DigestReader interface {
	io.Reader
	Digest() string
}

// ArchiveQuery is a request for the archives that a restore step unpacks.
type ArchiveQuery struct {
	Key      Key      `json:"key"`
	Executor string   `json:"executor"`
	Step     int      `json:"step"`
	Keys     []string `json:"keys,omitempty"` // of restore_cache, in order, as evaluated
}

// ArchiveSave is a request to save the archive that a step packs.
type ArchiveSave struct {
	Key      Key    `json:"key"`
	Executor string `json:"executor"`
	Step     int    `json:"step"`
	CacheKey string `json:"cache_key,omitempty"` // of save_cache, as evaluated
}

// ArchiveLimits bound what is packed and unpacked; 0 is no limit.
type ArchiveLimits struct {
	Size    int64 `json:"size"`    // of the archive
	Entries int64 `json:"entries"` // files, directories and links
	Bytes   int64 `json:"bytes"`   // content of all files, before compression
}

// ArchiveInfo describes a stored archive.
type ArchiveInfo struct {
	Kind ArchiveKind `json:"kind"`
	// Name is the key of a cache, the name of an artifact, or for a workspace
	// the task that saved it.
	Name    string    `json:"name"`
	Size    int64     `json:"size"`
	Digest  string    `json:"digest"` // sha256:<hex>, of the archive as stored
	Created time.Time `json:"created"`
}

// ArchiveRef is an archive that a step may read.
type ArchiveRef struct {
	ArchiveInfo
	Ref    string        `json:"ref"`
	Limits ArchiveLimits `json:"limits"` // of the unpacked files
}

// ArchiveRead is a request to read an archive.
type ArchiveRead struct {
	Ref      ArchiveRef
	Executor string
	Offset   int64
}

// ArchiveUpload is the permission to save an archive.
type ArchiveUpload struct {
	// Saved, if not nil, is the archive that exists already: there is nothing
	// to send.
	Saved    *ArchiveInfo  `json:"saved,omitempty"`
	Ref      string        `json:"ref,omitempty"`
	Executor string        `json:"executor"`
	Limits   ArchiveLimits `json:"limits"`
}

// ArchiveStep has the settings of an archive step. At most one of its fields is
// set.
type ArchiveStep struct {
	SaveWorkspace    *SaveWorkspace    `json:"save_workspace,omitempty"`
	RestoreWorkspace *RestoreWorkspace `json:"restore_workspace,omitempty"`
	SaveCache        *SaveCache        `json:"save_cache,omitempty"`
	RestoreCache     *RestoreCache     `json:"restore_cache,omitempty"`
	SaveArtifacts    *SaveArtifacts    `json:"save_artifacts,omitempty"`
}

// The types of step, as Step.Type returns them: keys of the specification.
const (
	StepRun              = "run"
	StepSaveWorkspace    = "save_workspace"
	StepRestoreWorkspace = "restore_workspace"
	StepSaveCache        = "save_cache"
	StepRestoreCache     = "restore_cache"
	StepSaveArtifacts    = "save_artifacts"
	StepCheckout         = "checkout" // no archive step
)

// ArchiveStepTypes returns the types of archive steps.
func ArchiveStepTypes() []string {
	return []string{StepSaveWorkspace, StepRestoreWorkspace, StepSaveCache, StepRestoreCache, StepSaveArtifacts}
}

// ArchivePaths selects the files that go into an archive.
type ArchivePaths struct {
	// Paths are globs with ** and {a,b} below the root, also absolute ones. A
	// glob that begins with ! excludes what it matches; of the globs that match
	// a file, the last decides. No globs at all select everything.
	Paths []string `json:"paths,omitempty"`
	// Root is the directory to which names in the archive are relative; see In.
	Root string `json:"root,omitempty"`
}

// In returns the directory to which names in the archive are relative, for a
// step with the working directory dir. It is the root, which may be relative to
// dir. Without a root it is / if all paths are absolute, and else dir.
func (p ArchivePaths) In(dir string) string {
	switch {
	case path.IsAbs(p.Root):
		return path.Clean(p.Root)
	case p.Root == "" && p.absolute():
		return "/"
	}
	return path.Join(dir, p.Root)
}

// absolute reports whether there are selecting paths and all of them are
// absolute.
func (p ArchivePaths) absolute() bool {
	selects := func(glob string) bool { return !strings.HasPrefix(glob, "!") }
	return slices.ContainsFunc(p.Paths, selects) &&
		!slices.ContainsFunc(p.Paths, func(glob string) bool { return !path.IsAbs(strings.TrimPrefix(glob, "!")) })
}

// SaveWorkspace saves files for the tasks that depend on this one.
type SaveWorkspace struct {
	ArchivePaths
	// To is the directory of the workspace that holds the files; "" means its
	// root.
	To string `json:"to,omitempty"`
}

// RestoreWorkspace unpacks the workspaces of the tasks on which this one
// depends, directly or through others: by level, then name, so that later ones
// win.
type RestoreWorkspace struct {
	// To is a directory, relative to the step's working directory; "" is that
	// directory.
	To string `json:"to,omitempty"`
}

// SaveCache saves files for later runs, unless a cache of that key exists.
type SaveCache struct {
	ArchivePaths
	Key string `json:"key"` // a template, see CacheKeyFunctions
	// Scope is the group whose runs share the cache: the run's own or one above
	// it, of at least two elements; "" means the first two.
	Scope string `json:"scope,omitempty"`
	// Mode says what happens if there is a cache with the key; "" means CacheOnce.
	Mode CacheMode `json:"mode,omitempty"`
}

// CacheMode says what a step that saves a cache does if there is one with its key.
type CacheMode string

// The modes of a cache.
const (
	CacheOnce    CacheMode = "once"    // it stays
	CacheReplace CacheMode = "replace" // it is replaced; the last commit wins
)

// RestoreCache unpacks the first cache that is found: for each key the cache of
// exactly that name, or else the newest whose name begins with it. If none is
// found, the step succeeds.
type RestoreCache struct {
	Keys  []string `json:"keys"`            // templates, see CacheKeyFunctions
	To    string   `json:"to,omitempty"`    // as in RestoreWorkspace
	Scope string   `json:"scope,omitempty"` // as in SaveCache
}

// SaveArtifacts saves files of a run for users.
type SaveArtifacts struct {
	ArchivePaths
	Name      string   `json:"name"`                // unique within the task
	Retention Duration `json:"retention,omitempty"` // 0: as long as the service keeps artifacts
	// JUnit says that the .xml files are test reports in JUnit's format.
	JUnit bool `json:"junit,omitempty"`
}

// ArchiveKind is the purpose of an archive.
type ArchiveKind string

// The kinds of archive.
const (
	ArchiveWorkspace ArchiveKind = "workspace"
	ArchiveCache     ArchiveKind = "cache"
	ArchiveArtifact  ArchiveKind = "artifact"
)

// ArchiveStat is the amount of stored data of a kind.
type ArchiveStat struct {
	Archives int64
	Bytes    int64
}

// Saves returns the kind of archive that the step saves, "" for none.
func (s *ArchiveStep) Saves() ArchiveKind {
	switch {
	case s.SaveWorkspace != nil:
		return ArchiveWorkspace
	case s.SaveCache != nil:
		return ArchiveCache
	case s.SaveArtifacts != nil:
		return ArchiveArtifact
	}
	return ""
}

// Restores returns the kind of archive that the step unpacks, "" for none.
func (s *ArchiveStep) Restores() ArchiveKind {
	switch {
	case s.RestoreWorkspace != nil:
		return ArchiveWorkspace
	case s.RestoreCache != nil:
		return ArchiveCache
	}
	return ""
}

// types returns the keys of the fields that are set.
func (s *ArchiveStep) types() []string {
	var out []string
	for _, t := range ArchiveStepTypes() {
		set := map[string]bool{
			StepSaveWorkspace: s.SaveWorkspace != nil, StepRestoreWorkspace: s.RestoreWorkspace != nil,
			StepSaveCache: s.SaveCache != nil, StepRestoreCache: s.RestoreCache != nil, StepSaveArtifacts: s.SaveArtifacts != nil,
		}[t]
		if set {
			out = append(out, t)
		}
	}
	return out
}

// GroupRoot returns the first two elements of a group. Run counters and, by
// default, caches are per group root.
func GroupRoot(group string) string {
	slashes := 0
	for i := range len(group) {
		if group[i] != '/' {
			continue
		}
		if slashes++; slashes == 3 {
			return group[:i]
		}
	}
	return group
}

// Type returns the type of the step, as its key in the specification: "run",
// "checkout", or the key of an archive step; "" if it has none.
func (s *Step) Type() string {
	if kinds := s.Types(); len(kinds) > 0 {
		return kinds[0]
	}
	return ""
}

// Types returns the types of the step, of which a valid step has exactly one.
func (s *Step) Types() []string {
	var types []string
	if s.Run != "" {
		types = append(types, StepRun)
	}
	if s.Checkout != nil {
		types = append(types, StepCheckout)
	}
	return append(types, s.types()...)
}
