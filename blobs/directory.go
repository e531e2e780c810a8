package blobs

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/drover-run/drover/internal/durable"
)

// errExists means that an object of the name exists.
var errExists = errors.New("the object exists")

// maxSynced bounds the set of directories that are known to be synced.
const maxSynced = 10_000

// directory writes the objects of a file:// bucket. gocloud.dev syncs nothing:
// after a loss of power, its files can be empty or missing.
type directory struct {
	root string

	mu     sync.Mutex
	synced map[string]bool // directories whose own names are synced
}

// openDirectory creates the root of a bucket if it does not exist.
func openDirectory(root string) (*directory, error) {
	if err := durable.MkdirAll(root, 0o777); err != nil {
		return nil, err
	}
	return &directory{root: root, synced: make(map[string]bool)}, nil
}

func (d *directory) path(key string) string { return filepath.Join(d.root, filepath.FromSlash(key)) }

// create begins an object. It uses a temporary name in the same directory;
// removeIncomplete and DeleteArchive remove such files after a kill.
func (d *directory) create(key string, ifAbsent bool) (*fileWriter, error) {
	path := d.path(key)
	if err := d.mkdir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path+"."+rand.Text()+".tmp", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666) //nolint:gosec // the umask decides: gateways of several users may share the directory
	if err != nil {
		return nil, err
	}
	return &fileWriter{File: f, directory: d, path: path, ifAbsent: ifAbsent}, nil
}

// mkdir creates the directory of an object.
func (d *directory) mkdir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	d.mu.Lock()
	for p := dir; d.below(p); p = filepath.Dir(p) {
		delete(d.synced, p)
	}
	d.mu.Unlock()
	return os.MkdirAll(dir, 0o777)
}

// below reports whether a path is below the root.
func (d *directory) below(path string) bool {
	return strings.HasPrefix(path, d.root+string(filepath.Separator))
}

// sync makes the names in the directory of a path durable, and the names of
// that directory and its parents. Another writer may have created those without
// syncing them yet, so this process syncs each of them once.
func (d *directory) sync(path string) error {
	dir := filepath.Dir(path)
	if err := durable.SyncDir(dir); err != nil {
		return err
	}
	for p := dir; d.below(p); p = filepath.Dir(p) {
		d.mu.Lock()
		done := d.synced[p]
		d.mu.Unlock()
		if done {
			continue
		}
		if err := durable.SyncDir(filepath.Dir(p)); err != nil {
			return err
		}
		d.mu.Lock()
		if len(d.synced) >= maxSynced {
			clear(d.synced)
		}
		d.synced[p] = true
		d.mu.Unlock()
	}
	return nil
}

// syncExisting syncs an existing object: its writer may have been killed before the
// sync, or may be a version that did not sync.
func (d *directory) syncExisting(key string) error {
	path := d.path(key)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return d.sync(path)
}

// syncRemoval makes the removal of an object durable. The records forget a removed
// object, so an object that reappeared would stay forever.
func (d *directory) syncRemoval(key string) error {
	err := durable.SyncDir(filepath.Dir(d.path(key)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// fileWriter is an objectWriter into a directory.
type fileWriter struct {
	*os.File
	directory *directory
	path      string
	ifAbsent  bool
}

// commit implements objectWriter. It syncs the content before the file gets its
// name, and the name before it returns.
func (f *fileWriter) commit(ctx context.Context) error {
	err := errors.Join(f.Sync(), f.Close())
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = f.linkFinal()
	}
	if removeErr := os.Remove(f.Name()); err == nil && !errors.Is(removeErr, fs.ErrNotExist) {
		err = removeErr
	}
	if err != nil {
		return err
	}
	return f.directory.sync(f.path)
}

// linkFinal gives the file its name. A link succeeds for only one writer. The
// fallback, a check and a rename, has a race, and serves only file systems
// without links.
func (f *fileWriter) linkFinal() error {
	if !f.ifAbsent {
		return os.Rename(f.Name(), f.path)
	}
	err := os.Link(f.Name(), f.path)
	switch {
	case errors.Is(err, fs.ErrExist):
		return errExists
	case !errors.Is(err, fs.ErrPermission) && !errors.Is(err, errors.ErrUnsupported):
		return err
	}
	if _, err := os.Lstat(f.path); err == nil {
		return errExists
	}
	return os.Rename(f.Name(), f.path)
}

// discard implements objectWriter.
func (f *fileWriter) discard() {
	_ = f.Close()
	_ = os.Remove(f.Name())
}
