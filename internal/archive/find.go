package archive

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/drover-run/drover/run"
)

// Entry is one name of an archive.
type Entry struct {
	Name string
	Mode fs.FileMode // with its type
	Size int64
	Time time.Time
	Link string // the target of a symbolic link, or the first name of a file
}

// List calls each with the entries of an archive, in their order, until each
// returns false. The content of an entry can be read only during the call. The
// limits apply to the read part. Errors: invalid, too_large, canceled.
func List(ctx context.Context, r io.Reader, limits Limits, each func(Entry, io.Reader) bool) error {
	z, err := newFrugalDecompressor(contextReader{ctx, r})
	if err != nil {
		return readFault(err)
	}
	defer z.Close()
	return list(ctx, z, limits, each)
}

// readFault adds a code to an error of the stream that has none.
func readFault(err error) error {
	if _, ok := errors.AsType[*run.Error](err); ok {
		return err
	}
	return run.Errorf(run.CodeInvalid, "read the archive: %w", err)
}

func list(ctx context.Context, r io.Reader, limits Limits, each func(Entry, io.Reader) bool) error {
	var seen Stats
	for t := tar.NewReader(&boundedReader{r: contextReader{ctx, r}, limit: limits.stream()}); ; {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case ctx.Err() != nil:
			return interrupted(ctx)
		case err != nil:
			return readFault(err)
		case h.Typeflag == tar.TypeXGlobalHeader:
			continue
		}
		if err := seen.count(limits, h.Size); err != nil {
			return err
		}
		e := Entry{Name: path.Clean(h.Name), Mode: h.FileInfo().Mode(), Size: h.Size, Time: h.ModTime, Link: h.Linkname}
		if h.Typeflag == tar.TypeLink {
			e.Size = 0
		}
		if !each(e, t) {
			return nil
		}
	}
}

// File is the content of one file of an archive.
type File struct {
	Entry
	content io.Reader
	z       *zstd.Decoder
}

// Open finds a file of an archive. The limits apply to the stream up to the end
// of the file. Errors: not_found, invalid (no archive, or the name is not one
// of a file with content of its own), too_large, canceled.
func Open(ctx context.Context, r io.Reader, name string, limits Limits) (*File, error) {
	z, err := newFrugalDecompressor(contextReader{ctx, r})
	if err != nil {
		return nil, readFault(err)
	}
	var found *File
	err = list(ctx, z, limits, func(e Entry, content io.Reader) bool {
		if e.Name != path.Clean(name) {
			return true
		}
		found = &File{Entry: e, content: content, z: z}
		return false
	})
	switch {
	case err != nil:
	case found == nil:
		err = run.Errorf(run.CodeNotFound, "the archive has no file %q", name)
	case !found.Mode.IsRegular() || found.Link != "":
		err = run.Errorf(run.CodeInvalid, "%q is a directory or a link", name)
	}
	if err != nil {
		z.Close()
		return nil, err
	}
	return found, nil
}

// Read implements io.Reader.
func (f *File) Read(b []byte) (int, error) { return f.content.Read(b) }

// Close implements io.Closer. It does not close the reader of the archive.
func (f *File) Close() error {
	f.z.Close()
	return nil
}
