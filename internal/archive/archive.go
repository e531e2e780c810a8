// Package archive writes and reads tar streams of files that nobody vouches for.
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
	"strings"

	"github.com/drover-run/drover/run"
)

// Unpack writes a tar stream below dir, which is made where it is missing. No
// entry gets outside of it, whatever names and links the stream has: an
// archive that tries is refused with CodeInvalid.
func Unpack(ctx context.Context, dir string, source io.Reader) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return run.Errorf(run.CodeInvalid, "making %s: %w", dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return run.Errorf(run.CodeInvalid, "opening %s: %w", dir, err)
	}
	defer func() { _ = root.Close() }()
	for r := tar.NewReader(source); ; {
		if ctx.Err() != nil {
			return canceled(ctx)
		}
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return run.Errorf(run.CodeInvalid, "reading the archive: %w", err)
		}
		if err := extract(root, h, r); err != nil {
			return run.Errorf(run.CodeInvalid, "unpacking %q: %w", h.Name, err)
		}
	}
}

func extract(root *os.Root, h *tar.Header, content io.Reader) error {
	name := path.Clean(h.Name)
	if !filepath.IsLocal(name) {
		return errors.New("its name leads out of the directory")
	}
	mode := h.FileInfo().Mode().Perm()
	if name != "." {
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := root.MkdirAll(name, 0o755); err != nil {
			return err
		}
		if name == "." {
			return nil
		}
		return root.Chmod(name, mode|0o700)
	case tar.TypeReg:
		return extractFile(root, name, mode, content)
	case tar.TypeSymlink:
		if err := removeOld(root, name); err != nil {
			return err
		}
		return root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		if err := removeOld(root, name); err != nil {
			return err
		}
		return root.Link(path.Clean(h.Linkname), name)
	}
	return fmt.Errorf("entries of type %q are not supported", h.Typeflag)
}

func extractFile(root *os.Root, name string, mode fs.FileMode, content io.Reader) error {
	if err := removeOld(root, name); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Chmod(mode), f.Close())
}

func removeOld(root *os.Root, name string) error {
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Pack returns a file or a tree as a tar stream, whose names begin with the last
// element of its path. The error has CodeNotFound where there is none.
func Pack(ctx context.Context, from string) (io.ReadCloser, error) {
	if _, err := os.Lstat(from); err != nil {
		code := run.CodeUnavailable
		if errors.Is(err, fs.ErrNotExist) {
			code = run.CodeNotFound
		}
		return nil, run.Errorf(code, "copying from the task: %w", err)
	}
	r, w := io.Pipe()
	go func() {
		t := tar.NewWriter(w)
		err := addTree(ctx, t, from)
		_ = w.CloseWithError(errors.Join(err, t.Close())) // its own error is always nil
	}()
	return r, nil
}

func addTree(ctx context.Context, t *tar.Writer, from string) error {
	return filepath.WalkDir(from, func(at string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return canceled(ctx)
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(filepath.Dir(from), at)
		if err != nil {
			return err
		}
		return addFile(t, at, filepath.ToSlash(rel), info)
	})
}

func addFile(t *tar.Writer, at, name string, info fs.FileInfo) error {
	var target string
	var err error
	switch {
	case info.Mode().IsRegular(), info.IsDir():
	case info.Mode()&fs.ModeSymlink != 0:
		if target, err = os.Readlink(at); err != nil {
			return err
		}
	default:
		return nil // sockets, pipes and devices are no content
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	h.Name = name
	if info.IsDir() {
		h.Name = strings.TrimSuffix(name, "/") + "/"
	}
	if err := t.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(at)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	// A file that shrinks meanwhile is a fault, one that grows is cut.
	_, err = io.CopyN(t, f, h.Size)
	return err
}

func canceled(ctx context.Context) error {
	return run.Errorf(run.CodeCanceled, "copying: %w", context.Cause(ctx))
}
