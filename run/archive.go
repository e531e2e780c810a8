package run

import (
	"context"
	"io"
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
