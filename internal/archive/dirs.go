package archive

import (
	"archive/tar"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/drover-run/drover/run"
)

// ownerWrites are the permissions that the owner of a directory needs to fill
// it.
const ownerWrites = 0o700

// dirs is the stack of directories above the entry that is being unpacked. A
// directory gets its mode and time after its last entry, because a read-only
// directory cannot be filled.
type dirs struct {
	root     *os.Root
	setOwner func(name string) error // sets the owner of a created file
	open     []openDir               // each within the previous one
}

// openDir is a directory that is being filled.
type openDir struct {
	name    string
	mode    fs.FileMode
	setMode bool
	time    time.Time // zero: unchanged
}

// enter makes sure that the directory of name exists and is writable.
func (d *dirs) enter(name string) error {
	if err := d.closeAbove(name); err != nil {
		return err
	}
	parent := path.Dir(name)
	if parent == "." {
		return nil
	}
	known := ""
	if n := len(d.open); n > 0 {
		known = d.open[n-1].name
	}
	if known == parent {
		return nil
	}
	for element := range strings.SplitSeq(strings.TrimPrefix(strings.TrimPrefix(parent, known), "/"), "/") {
		known = path.Join(known, element)
		if err := d.createImplied(known); err != nil {
			return err
		}
	}
	return nil
}

// createImplied creates a missing directory that the archive does not contain.
func (d *dirs) createImplied(name string) error {
	info, err := d.root.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return d.fill(name, info)
	case err == nil: // a later entry of the directory replaces it
		if err := d.root.Remove(name); err != nil {
			return fault(err)
		}
	case errors.Is(err, fs.ErrPermission):
		return fault(err)
	case !errors.Is(err, fs.ErrNotExist):
		return run.Errorf(run.CodeInvalid, "its parent %q is outside the directory: %w", name, withoutPath(err))
	}
	return d.make(name)
}

func (d *dirs) make(name string) error {
	if err := d.root.Mkdir(name, 0o755); err != nil {
		return fault(err)
	}
	d.open = append(d.open, openDir{name: name})
	return d.setOwner(name)
}

// fill opens an existing directory.
func (d *dirs) fill(name string, info fs.FileInfo) error {
	o := openDir{name: name}
	if mode := info.Mode().Perm(); mode&ownerWrites != ownerWrites && d.root.Chmod(name, mode|ownerWrites) == nil {
		o.mode, o.setMode = mode, true
	}
	d.open = append(d.open, o)
	return nil
}

// add creates a directory of the archive.
func (d *dirs) add(name string, h *tar.Header) error {
	info, err := d.root.Lstat(name)
	var there bool
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fault(err)
	case info.IsDir():
		there = true
	case info.Mode()&fs.ModeSymlink != 0:
		if to, err := d.root.Stat(name); err == nil && to.IsDir() {
			return d.fill(name, to) // the link stays, and its target is unchanged
		}
		fallthrough
	default:
		if err := d.root.Remove(name); err != nil {
			return fault(err)
		}
	}
	if there {
		err = d.fill(name, info)
	} else {
		err = d.make(name)
	}
	if err != nil || there && h.PAXRecords[recordImplied] != "" {
		return err
	}
	mode := h.FileInfo().Mode() & (fs.ModePerm | fs.ModeSticky)
	if there {
		if err := d.setOwner(name); err != nil {
			return err
		}
	}
	o := &d.open[len(d.open)-1]
	o.mode, o.setMode, o.time = mode, true, h.ModTime
	return nil
}

// closeAbove closes the directories that do not contain a name.
func (d *dirs) closeAbove(name string) error {
	var errs error
	for n := len(d.open); n > 0; n-- {
		last := d.open[n-1]
		if strings.HasPrefix(name, last.name+"/") {
			break
		}
		d.open = d.open[:n-1]
		errs = errors.Join(errs, d.close(last))
	}
	return errs
}

func (d *dirs) close(o openDir) error {
	if !o.time.IsZero() {
		if err := d.root.Chtimes(o.name, o.time, o.time); err != nil {
			return fault(err)
		}
	}
	if o.setMode {
		return fault(d.root.Chmod(o.name, o.mode))
	}
	return nil
}
