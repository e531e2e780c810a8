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

// ownerWrites is what the owner of a directory needs to fill it.
const ownerWrites = 0o700

// dirs are the directories that lie above the entry which is being unpacked.
// They get their modes and times when the archive has left them: nothing could
// be written into one that is read-only.
type dirs struct {
	root *os.Root
	made func(name string) error // owns what was made
	open []openDir               // each within the one before
}

// openDir is a directory that is being filled.
type openDir struct {
	name    string
	mode    fs.FileMode
	setMode bool
	time    time.Time // zero: stays
}

// enter makes sure that there is a directory for name, and that it can be
// written.
func (d *dirs) enter(name string) error {
	if err := d.leave(name); err != nil {
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
		if err := d.imply(known); err != nil {
			return err
		}
	}
	return nil
}

// imply makes a directory that the archive does not tell of, where it is
// missing.
func (d *dirs) imply(name string) error {
	info, err := d.root.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return d.fill(name, info)
	case err == nil: // what is listed later wins
		if err := d.root.Remove(name); err != nil {
			return fault(err)
		}
	case errors.Is(err, fs.ErrPermission):
		return fault(err)
	case !errors.Is(err, fs.ErrNotExist):
		return run.Errorf(run.CodeInvalid, "it lies in %q, which leads out of the directory: %w", name, plain(err))
	}
	return d.make(name)
}

func (d *dirs) make(name string) error {
	if err := d.root.Mkdir(name, 0o755); err != nil {
		return fault(err)
	}
	d.open = append(d.open, openDir{name: name})
	return d.made(name)
}

// fill opens a directory that is there.
func (d *dirs) fill(name string, info fs.FileInfo) error {
	o := openDir{name: name}
	if mode := info.Mode().Perm(); mode&ownerWrites != ownerWrites && d.root.Chmod(name, mode|ownerWrites) == nil {
		o.mode, o.setMode = mode, true
	}
	d.open = append(d.open, o)
	return nil
}

// add makes a directory that the archive tells of.
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
			return d.fill(name, to) // the link stays, and its target as it is
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
		if err := d.made(name); err != nil {
			return err
		}
	}
	o := &d.open[len(d.open)-1]
	o.mode, o.setMode, o.time = mode, true, h.ModTime
	return nil
}

// leave closes the directories that a name does not lie in.
func (d *dirs) leave(name string) error {
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
