package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/drover-run/drover/run"
)

const (
	// maxTrailer bounds the data after the last entry.
	maxTrailer = 1 << 20
	// hole is the unit in which zeros of a sparse file become a hole.
	hole = 4 << 10
)

// Owner is the owner of the unpacked files.
type Owner struct{ UID, GID int }

// Unpacking configures Unpack. The zero value is for files of the process's own
// user, without limits.
type Unpacking struct {
	Limits
	// Owner owns all created files; nil means the process's own user. Another
	// owner requires privileges.
	Owner *Owner
}

// Unpack writes an archive below dir, and creates dir if it is missing.
// Existing files stay, except for names in the archive, which are replaced.
// Unpack writes nothing outside of dir, for any names and links in the archive.
// It follows existing links in dir only within dir. Errors: invalid (no
// archive, or one that tries to get out, or has devices), too_large, canceled,
// unavailable (a file that cannot be written).
func Unpack(ctx context.Context, dir string, r io.Reader, u Unpacking) (Stats, error) {
	z, err := newDecompressor(contextReader{ctx, r})
	if err != nil {
		return Stats{}, readFault(err)
	}
	defer z.Close()
	content := &boundedReader{r: z, limit: u.stream()}
	stats, err := UnpackTar(ctx, dir, content, u)
	if err != nil {
		return stats, err
	}
	return stats, drain(content)
}

// drain reads the rest after the end of a tar stream, to verify that the stream
// is complete.
func drain(r io.Reader) error {
	n, err := io.Copy(io.Discard, io.LimitReader(r, maxTrailer+1))
	if err != nil {
		return readFault(err)
	}
	if n > maxTrailer {
		return run.Errorf(run.CodeInvalid, "data follows the end of the archive")
	}
	return nil
}

// UnpackTar is Unpack for an uncompressed stream.
func UnpackTar(ctx context.Context, dir string, r io.Reader, u Unpacking) (Stats, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Stats{}, run.Errorf(run.CodeInvalid, "make %s: %w", dir, withoutPath(err))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Stats{}, run.Errorf(run.CodeInvalid, "open %s: %w", dir, withoutPath(err))
	}
	defer func() { _ = root.Close() }()
	x := &unpacker{ctx: ctx, root: root, how: u, buffer: make([]byte, copyBuffer)}
	x.dirs = dirs{root: root, setOwner: x.own}
	err = x.entries(tar.NewReader(contextReader{ctx, r}))
	return x.stats, errors.Join(err, x.dirs.closeAbove("."))
}

// unpacker writes the entries of one archive.
type unpacker struct {
	ctx    context.Context //nolint:containedctx // of one call
	root   *os.Root
	how    Unpacking
	dirs   dirs
	stats  Stats
	buffer []byte
}

func (x *unpacker) entries(r *tar.Reader) error {
	for {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case x.ctx.Err() != nil:
			return interrupted(x.ctx)
		case err != nil:
			return readFault(err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		name := path.Clean(h.Name)
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return run.Errorf(run.CodeInvalid, "unpack %q: its name is outside the directory", h.Name)
		}
		if h.PAXRecords[recordImplied] == "" {
			if err := x.stats.count(x.how.Limits, h.Size); err != nil {
				return err
			}
		}
		if err := x.entry(name, h, r); err != nil {
			return fmt.Errorf("unpack %q: %w", h.Name, err)
		}
	}
}

func (x *unpacker) entry(name string, h *tar.Header, content io.Reader) error {
	switch h.Typeflag {
	case tar.TypeDir, tar.TypeReg, tar.TypeGNUSparse, tar.TypeSymlink, tar.TypeLink:
	default:
		return run.Errorf(run.CodeInvalid, "entry type %q is not supported: must be a file, a directory or a link", h.Typeflag)
	}
	if name == "." {
		if h.Typeflag == tar.TypeDir {
			return nil // the root exists, and the archive does not set its mode
		}
		return run.Errorf(run.CodeInvalid, "no name")
	}
	if err := x.dirs.enter(name); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return x.dirs.add(name, h)
	case tar.TypeSymlink:
		err := x.replacing(name, func() error { return x.root.Symlink(h.Linkname, name) })
		if err != nil {
			return fault(err)
		}
		return x.own(name)
	case tar.TypeLink:
		return x.link(name, path.Clean(h.Linkname))
	}
	return x.file(name, h, content)
}

// link creates a further name of an unpacked file.
func (x *unpacker) link(name, target string) error {
	if !filepath.IsLocal(filepath.FromSlash(target)) {
		return run.Errorf(run.CodeInvalid, "link to %q, which is outside the directory", target)
	}
	if name == target {
		return run.Errorf(run.CodeInvalid, "link to itself")
	}
	info, err := x.root.Lstat(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return run.Errorf(run.CodeInvalid, "link to %q, which does not exist", target)
	case errors.Is(err, fs.ErrPermission):
		return fault(err)
	case err != nil:
		return run.Errorf(run.CodeInvalid, "link to %q: %w", target, withoutPath(err))
	case !info.Mode().IsRegular():
		return run.Errorf(run.CodeInvalid, "link to %q, which is not a file", target)
	}
	return fault(x.replacing(name, func() error { return x.root.Link(target, name) }))
}

func (x *unpacker) file(name string, h *tar.Header, content io.Reader) error {
	var f *os.File
	err := x.replacing(name, func() (err error) {
		f, err = x.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		return err
	})
	if err != nil {
		return fault(err)
	}
	write := x.copyAll
	if h.PAXRecords[recordSparse] != "" || h.Typeflag == tar.TypeGNUSparse {
		write = x.copyHoles
	}
	err = write(f, content, h.Size)
	if o := x.how.Owner; o != nil && err == nil {
		err = f.Chown(o.UID, o.GID)
	}
	if err == nil {
		err = f.Chmod(h.FileInfo().Mode().Perm())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fault(err)
	}
	return fault(x.root.Chtimes(name, h.ModTime, h.ModTime))
}

func (x *unpacker) copyAll(f *os.File, content io.Reader, _ int64) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{content}, x.buffer)
	return err
}

// copyHoles writes a file, and turns zeros into holes.
func (x *unpacker) copyHoles(f *os.File, content io.Reader, size int64) error {
	zeros := make([]byte, hole)
	for {
		n, err := io.ReadFull(content, x.buffer)
		for part := x.buffer[:n]; len(part) > 0; {
			block := part[:min(len(part), hole)]
			part = part[len(block):]
			var err error
			if bytes.Equal(block, zeros[:len(block)]) {
				_, err = f.Seek(int64(len(block)), io.SeekCurrent)
			} else {
				_, err = f.Write(block)
			}
			if err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && n < len(x.buffer) && x.atEnd(f, size) {
			return f.Truncate(size)
		}
		if err != nil {
			return err
		}
	}
}

// atEnd distinguishes the end of a file from a truncated stream.
func (x *unpacker) atEnd(f *os.File, size int64) bool {
	at, err := f.Seek(0, io.SeekCurrent)
	return err == nil && at == size
}

// replacing creates a file whose name may exist.
func (x *unpacker) replacing(name string, do func() error) error {
	err := do()
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := x.root.Lstat(name)
	if err == nil && info.IsDir() {
		err = x.root.RemoveAll(name)
	} else if err == nil {
		err = x.root.Remove(name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return do()
}

func (x *unpacker) own(name string) error {
	if o := x.how.Owner; o != nil {
		return fault(x.root.Lchown(name, o.UID, o.GID))
	}
	return nil
}

// fault adds a code to an error of the file system, or of the stream.
func fault(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*run.Error](err); ok {
		return err
	}
	_, isPath := errors.AsType[*fs.PathError](err)
	_, isLink := errors.AsType[*os.LinkError](err)
	if isPath || isLink {
		return run.Errorf(run.CodeUnavailable, "%w", err)
	}
	return run.Errorf(run.CodeInvalid, "read the archive: %w", err)
}
