package archive

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/drover-run/drover/run"
)

// maxLinks bounds the files with several names whose first name is stored, so
// that the content is packed once. Further files are packed once per name.
const maxLinks = 100_000

// Pack writes the selected files as an archive. After an error, the output is
// not a valid archive. Errors: invalid (the globs), not_found (there is no
// root), too_large, canceled, unavailable (a file that cannot be read).
func Pack(ctx context.Context, w io.Writer, s Selection, l Limits) (Stats, error) {
	z, err := newCompressor(w)
	if err != nil {
		return Stats{}, fmt.Errorf("make a compressor: %w", err)
	}
	stats, err := packTar(ctx, z, s, l)
	if err != nil {
		z.Reset(nil) // the output has no end marker
		return stats, err
	}
	if err := z.Close(); err != nil {
		return stats, run.Errorf(run.CodeUnavailable, "write the archive: %w", err)
	}
	return stats, nil
}

// Tree returns a file, or a directory with everything below it, as an
// uncompressed tar stream. The names begin with the last element of the path.
// Errors: not_found, unavailable.
func Tree(ctx context.Context, from string) (io.ReadCloser, error) {
	if _, err := os.Lstat(from); err != nil {
		code := run.CodeUnavailable
		if errors.Is(err, fs.ErrNotExist) {
			code = run.CodeNotFound
		}
		return nil, run.Errorf(code, "copy from the task: %w", err)
	}
	r, w := io.Pipe()
	go func() {
		_ = w.CloseWithError(writeTree(ctx, w, from)) // CloseWithError always returns nil
	}()
	return r, nil
}

func writeTree(ctx context.Context, w io.Writer, from string) error {
	dir, name := filepath.Split(filepath.Clean(from))
	if name == "" { // the root directory has no name
		_, err := packTar(ctx, w, Selection{Root: from}, Limits{})
		return err
	}
	if dir == "" {
		dir = "."
	}
	p, err := newPacker(ctx, w, Selection{Root: dir}, Limits{})
	if err != nil {
		return err
	}
	defer p.close()
	if err := p.add(name, p.matcher.start()); err != nil {
		return err
	}
	return p.finish()
}

func packTar(ctx context.Context, w io.Writer, s Selection, l Limits) (Stats, error) {
	p, err := newPacker(ctx, w, s, l)
	if err != nil {
		return Stats{}, err
	}
	defer p.close()
	if err := p.list(".", p.matcher.start()); err != nil {
		return p.stats, err
	}
	return p.stats, p.finish()
}

// packer writes one archive.
type packer struct {
	ctx            context.Context //nolint:containedctx // of one call
	root           *os.Root
	files          fs.FS
	matcher        matcher
	to             string
	splitHardLinks bool
	limits         Limits
	never          []fs.FileInfo
	out            *tar.Writer
	stats          Stats
	buffer         []byte
	links          map[inode]string // the first names of files with several names
	implied        []string         // directories to write before the next selected entry
}

func newPacker(ctx context.Context, w io.Writer, s Selection, l Limits) (*packer, error) {
	if err := Check(s.Paths, s.Root, s.To); err != nil {
		return nil, err
	}
	m, err := newMatcher(s.Paths, s.Root)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(s.Root)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, run.Errorf(run.CodeNotFound, "no directory %s", s.Root)
	case err != nil:
		return nil, run.Errorf(run.CodeUnavailable, "open the directory: %w", err)
	}
	p := &packer{
		ctx: ctx, root: root, files: root.FS(), matcher: m, to: path.Clean(s.To), splitHardLinks: s.SplitHardLinks, limits: l,
		out: tar.NewWriter(w), buffer: make([]byte, copyBuffer), links: make(map[inode]string),
	}
	if err := p.excludeDirs(s.Exclude); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// excludeDirs records the directories that are never packed. The root must not be
// inside one of them.
func (p *packer) excludeDirs(excluded []string) error {
	for _, dir := range excluded {
		info, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return run.Errorf(run.CodeUnavailable, "check an excluded directory: %w", withoutPath(err))
		}
		p.never = append(p.never, info)
	}
	if len(p.never) == 0 {
		return nil
	}
	at, err := filepath.EvalSymlinks(p.root.Name())
	if err == nil {
		at, err = filepath.Abs(at)
	}
	if err != nil {
		return run.Errorf(run.CodeUnavailable, "open the directory: %w", withoutPath(err))
	}
	for ; ; at = filepath.Dir(at) {
		if info, err := os.Stat(at); err == nil && p.isExcluded(info) {
			return run.Errorf(run.CodeInvalid, "%s is excluded from archives", at)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// isExcluded reports whether a directory is never packed.
func (p *packer) isExcluded(info fs.FileInfo) bool {
	return slices.ContainsFunc(p.never, func(n fs.FileInfo) bool { return os.SameFile(n, info) })
}

func (p *packer) close() { _ = p.root.Close() }

func (p *packer) finish() error {
	if err := p.out.Close(); err != nil {
		return run.Errorf(run.CodeUnavailable, "write the archive: %w", err)
	}
	return nil
}

// list packs the entries of a directory, sorted by name, so that packing is
// deterministic.
func (p *packer) list(dir string, parent decision) error {
	entries, err := fs.ReadDir(p.files, dir)
	if errors.Is(err, fs.ErrNotExist) && dir != "." {
		p.stats.Skipped++
		return nil
	}
	if err != nil {
		return run.Errorf(run.CodeUnavailable, "list %s: %w", dir, withoutPath(err))
	}
	for _, e := range entries {
		if p.ctx.Err() != nil {
			return interrupted(p.ctx)
		}
		name := path.Join(dir, e.Name())
		d := p.matcher.decide(parent, name)
		if !d.selected && (!e.IsDir() || !p.matcher.reaches(d, name)) {
			continue
		}
		if err := p.add(name, d); err != nil {
			return err
		}
	}
	return nil
}

// add packs one name, with everything below it.
func (p *packer) add(name string, parent decision) error {
	info, err := p.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		p.stats.Skipped++
		return nil
	}
	if err != nil {
		return run.Errorf(run.CodeUnavailable, "pack %s: %w", name, withoutPath(err))
	}
	switch mode := info.Mode(); {
	case info.IsDir():
		return p.addDir(name, info, parent)
	case mode.IsRegular():
		return p.addFile(name, info)
	case mode&fs.ModeSymlink != 0:
		target, err := p.root.Readlink(name)
		if err != nil {
			return run.Errorf(run.CodeUnavailable, "pack %s: %w", name, withoutPath(err))
		}
		return p.write(name, info, target, nil)
	}
	p.stats.Skipped++ // sockets, pipes and devices have no content
	return nil
}

func (p *packer) addDir(name string, info fs.FileInfo, parent decision) error {
	if p.isExcluded(info) {
		return nil
	}
	if parent.selected {
		if err := p.write(name, info, "", nil); err != nil {
			return err
		}
	} else {
		p.implied = append(p.implied, name)
		defer func() {
			if n := len(p.implied); n > 0 && p.implied[n-1] == name {
				p.implied = p.implied[:n-1]
			}
		}()
	}
	if !p.matcher.reaches(parent, name) {
		return nil
	}
	return p.list(name, parent)
}

func (p *packer) addFile(name string, info fs.FileInfo) error {
	id, many := inodeOf(info)
	if many && !p.splitHardLinks {
		if first, known := p.links[id]; known {
			return p.link(name, first, info)
		}
		if len(p.links) < maxLinks {
			p.links[id] = name
		}
	}
	f, err := p.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		p.stats.Skipped++
		delete(p.links, id)
		return nil
	}
	if err != nil {
		return run.Errorf(run.CodeUnavailable, "pack %s: %w", name, withoutPath(err))
	}
	defer func() { _ = f.Close() }()
	now, err := f.Stat()
	if err != nil || !now.Mode().IsRegular() {
		return run.Errorf(run.CodeUnavailable, "pack %s: it changed while it was packed", name)
	}
	return p.write(name, now, "", f)
}

// link packs a further name of a file.
func (p *packer) link(name, first string, info fs.FileInfo) error {
	h, err := p.header(name, info, "")
	if err != nil {
		return err
	}
	h.Typeflag, h.Linkname, h.Size = tar.TypeLink, path.Join(p.to, first), 0
	return p.put(name, h, nil)
}

// write packs one entry, after the implied directories above it.
func (p *packer) write(name string, info fs.FileInfo, target string, content io.Reader) error {
	h, err := p.header(name, info, target)
	if err != nil {
		return err
	}
	if content != nil && hasHoles(info) {
		h.PAXRecords = map[string]string{recordSparse: recordYes}
	}
	return p.put(name, h, content)
}

func (p *packer) put(name string, h *tar.Header, content io.Reader) error {
	if err := p.stats.count(p.limits, h.Size); err != nil {
		return err
	}
	if err := p.putImplied(); err != nil {
		return err
	}
	if err := p.out.WriteHeader(h); err != nil {
		return run.Errorf(run.CodeUnavailable, "pack %s: %w", name, err)
	}
	if content == nil {
		return nil
	}
	// A file that grows meanwhile is truncated; one that shrinks is an error.
	n, err := io.CopyBuffer(struct{ io.Writer }{p.out}, contextReader{p.ctx, io.LimitReader(content, h.Size)}, p.buffer)
	switch {
	case p.ctx.Err() != nil:
		return interrupted(p.ctx)
	case err != nil:
		return run.Errorf(run.CodeUnavailable, "pack %s: %w", name, withoutPath(err))
	case n < h.Size:
		return run.Errorf(run.CodeUnavailable, "pack %s: it shrank while it was packed", name)
	}
	return nil
}

// putImplied writes the directories above a selected entry.
func (p *packer) putImplied() error {
	for _, dir := range p.implied {
		info, err := p.root.Lstat(dir)
		if err != nil {
			return run.Errorf(run.CodeUnavailable, "pack %s: %w", dir, withoutPath(err))
		}
		h, err := p.header(dir, info, "")
		if err != nil {
			return err
		}
		h.PAXRecords = map[string]string{recordImplied: recordYes}
		if err := p.out.WriteHeader(h); err != nil {
			return run.Errorf(run.CodeUnavailable, "pack %s: %w", dir, err)
		}
	}
	p.implied = p.implied[:0]
	return nil
}

// header describes an entry, without data that depends on this machine or the
// current time.
func (p *packer) header(name string, info fs.FileInfo, target string) (*tar.Header, error) {
	from, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return nil, run.Errorf(run.CodeUnavailable, "pack %s: %w", name, err)
	}
	h := &tar.Header{
		Typeflag: from.Typeflag, Name: path.Join(p.to, name), Linkname: from.Linkname, Size: from.Size, Mode: int64(info.Mode().Perm()),
		ModTime: info.ModTime(), Format: tar.FormatPAX,
	}
	if info.Mode()&fs.ModeSticky != 0 {
		h.Mode |= modeSticky
	}
	if info.IsDir() {
		h.Name += "/"
	}
	return h, nil
}

// modeSticky is the tar bit for directories in which users may remove only
// their own files.
const modeSticky = 0o1000

// withoutPath returns an error without the operation and the path, which the message
// has already.
func withoutPath(err error) error {
	if fault, ok := errors.AsType[*fs.PathError](err); ok {
		return fault.Err
	}
	return err
}
