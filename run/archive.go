package run

import (
	"context"
	"io"
	"time"
)

// ArchiveDesk is the part of Desk through which executors move archives. An
// archive is a stream as package archive writes it; here it is bytes.
//
// A step restores by FindArchives, and then OpenArchive of each in order. A
// step saves by BeginArchive, and then, unless that says that it is saved
// already, SaveArchive of what it packs. Steps are named by their key and their
// number from 0; what they save and restore is taken from the specification and
// not from the caller. A caller must be the executor that holds the open claim
// of exactly that key, or another member of its set; otherwise all calls fail
// with CodeNotFound (no such claim, or not of this executor) or CodeConflict
// (the claim is closed).
//
// References are opaque, signed, for one key and one archive, and expire: then
// calls fail with CodeGone, and are to be begun anew.
type ArchiveDesk interface {
	// FindArchives lists what a restore step is to unpack, in order: later ones
	// win. Of a workspace that is what all tasks saved that this one depends on,
	// over any number of others, by level and then name; none may be. Of a cache
	// it is one, or none. Errors: invalid (not a restore step; bad keys), gone
	// (a workspace was removed since its run ended).
	FindArchives(ctx context.Context, q ArchiveQuery) ([]ArchiveRef, error)
	// OpenArchive reads an archive from an offset on. It may break off, as any
	// stream: read the rest from where it broke off. The reader fails with
	// CodeInvalid where the whole of it is not what its digest says; that is
	// known at its end alone. Errors: gone (the reference expired, or the
	// archive was removed), invalid (the reference is not genuine, or for
	// something else; the offset).
	OpenArchive(ctx context.Context, r ArchiveRead) (io.ReadCloser, error)
	// BeginArchive prepares to save an archive. Where Saved is set in what it
	// returns there is nothing to send: the step has saved it before, or a cache
	// of that key exists. Errors: invalid (not a save step; a bad key).
	BeginArchive(ctx context.Context, s ArchiveSave) (ArchiveUpload, error)
	// SaveArchive stores content to its end, and then, by one transaction, makes
	// it be seen. If reading content fails, or anything else, nothing is ever
	// seen of it; to try again, begin again with content from its start. Content
	// must fail where its archive is not whole. Errors: too_large, gone (the
	// reference expired), invalid (it is not genuine; no archive), conflict (the
	// claim was closed meanwhile), and those of content as they are.
	SaveArchive(ctx context.Context, u ArchiveUpload, content io.Reader) (ArchiveInfo, error)
}

// ArchiveLocator is what an ArchiveDesk, or Artifacts, may be besides: it knows
// where the bytes of archives can be had without it. A URL is good for some
// minutes and for whoever has it, so it belongs into no log and no error; "" means
// that there is none for this archive. Who gets one asks the store for it without
// credentials, by a range from the offset on, checks the digest, and reads by the
// other calls where the store is out of reach, or says no.
type ArchiveLocator interface {
	// LocateArchive is for what OpenArchive reads, with its errors.
	LocateArchive(ctx context.Context, r ArchiveRead) (url string, err error)
	// LocateArtifact is for what OpenArtifact reads, with its errors.
	LocateArtifact(ctx context.Context, ref ArtifactRef, offset int64) (a Artifact, url string, err error)
}

// Summed is content that knows the digest, as ArchiveInfo has it, of what was
// read of it so far. Whoever stores it need not sum it up again.
type Summed interface {
	io.Reader
	Digest() string
}

// ArchiveQuery asks for what a restore step unpacks.
type ArchiveQuery struct {
	Key      Key      `json:"key"`
	Executor string   `json:"executor"`
	Step     int      `json:"step"`
	Keys     []string `json:"keys,omitempty"` // of restore_cache, in order, as evaluated
}

// ArchiveSave asks to save what a step packs.
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
	// Name is the key of a cache, the name of an artifact, or of a workspace the
	// task that saved it.
	Name    string    `json:"name"`
	Size    int64     `json:"size"`
	Digest  string    `json:"digest"` // sha256:<hex>, of the archive as stored
	Created time.Time `json:"created"`
}

// ArchiveRef is an archive that a step may read.
type ArchiveRef struct {
	ArchiveInfo
	Ref    string        `json:"ref"`
	Limits ArchiveLimits `json:"limits"` // of what is unpacked
}

// ArchiveRead opens an archive.
type ArchiveRead struct {
	Ref      ArchiveRef
	Executor string
	Offset   int64
}

// ArchiveUpload is the place for an archive that a step saves.
type ArchiveUpload struct {
	// Saved, where not nil, is what is there already: nothing is to be sent.
	Saved    *ArchiveInfo  `json:"saved,omitempty"`
	Ref      string        `json:"ref,omitempty"`
	Executor string        `json:"executor"`
	Limits   ArchiveLimits `json:"limits"`
}
