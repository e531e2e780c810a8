package executor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/drover-run/drover/run"
)

// journal is the executor's memory of its keys: a directory with one file a
// key, of JSON lines that are only ever appended. A line that was torn by a
// crash never happened. Whether an append survives the death of the process
// needs no sync; what must survive the death of the host is synced.
type journal struct {
	dir  string
	seal atomic.Bool // of tests: a process that is dead writes nothing
}

const journalSuffix = ".jsonl"

var errSealed = errors.New("the journal is closed")

// loaded is one file as it was found.
type loaded struct {
	key   run.Key
	entry entry
	file  *journalFile
}

// load reads all files. Files that are not a key's are left alone.
func (j *journal) load() ([]loaded, error) {
	list, err := os.ReadDir(j.dir)
	if err != nil {
		return nil, fmt.Errorf("reading journal: %w", err)
	}
	var all []loaded
	for _, d := range list {
		name, ok := strings.CutSuffix(d.Name(), journalSuffix)
		key, err := run.ParseKey(name)
		if !ok || err != nil {
			continue
		}
		e, f, err := j.open(key)
		if err != nil {
			return nil, err
		}
		all = append(all, loaded{key: key, entry: e, file: f})
	}
	return all, nil
}

func (j *journal) path(key run.Key) string {
	return filepath.Join(j.dir, key.String()+journalSuffix)
}

// open reads the file of a key and cuts a torn last line off.
func (j *journal) open(key run.Key) (entry, *journalFile, error) {
	path := j.path(key)
	content, err := os.ReadFile(path)
	if err != nil {
		return entry{}, nil, fmt.Errorf("reading journal entry: %w", err)
	}
	e, size := parseEntry(content)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return entry{}, nil, fmt.Errorf("opening journal entry: %w", err)
	}
	file := &journalFile{journal: j, file: f, size: size}
	if err := file.cut(); err != nil {
		return entry{}, nil, errors.Join(err, f.Close())
	}
	return e, file, nil
}

// parseEntry reads the lines of a file, and returns how many bytes of it hold.
func parseEntry(content []byte) (entry, int64) {
	var e entry
	size := 0
	for rest := content; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		if !whole {
			break // torn: it was never acted upon
		}
		var r record
		if err := json.Unmarshal(line, &r); err != nil || r.Version > recordVersion {
			e.Damaged = true
		} else {
			e.apply(r)
		}
		size += len(line) + 1
		rest = after
	}
	if e.Damaged && e.State != stateEnded && e.State != stateClosed {
		e.State = stateLaunched
	}
	return e, int64(size)
}

// create begins the file of a key. Errors: CodeConflict where there is one.
func (j *journal) create(key run.Key, r record) (*journalFile, error) {
	if j.seal.Load() {
		return nil, errSealed
	}
	f, err := os.OpenFile(j.path(key), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, run.Errorf(run.CodeConflict, "the journal has %s already", key)
	case err != nil:
		return nil, fmt.Errorf("creating journal entry: %w", err)
	}
	file := &journalFile{journal: j, file: f}
	r.Version = recordVersion
	if err := file.append(r, false); err != nil {
		return nil, errors.Join(err, file.remove())
	}
	return file, nil
}

// check returns nil if the journal can be written.
func (j *journal) check() error {
	f, err := os.CreateTemp(j.dir, ".check-*")
	if err != nil {
		return fmt.Errorf("checking journal: %w", err)
	}
	_, err = f.WriteString("check\n")
	if err = errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name())); err != nil {
		return fmt.Errorf("checking journal: %w", err)
	}
	return nil
}

// sync makes the names in the directory last.
func (j *journal) sync() error {
	if runtime.GOOS == "windows" {
		return nil // directories can not be synced there, nor need to be
	}
	d, err := os.Open(j.dir)
	if err != nil {
		return fmt.Errorf("syncing journal: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("syncing journal: %w", err)
	}
	return nil
}

// journalFile is the file of one key. Its methods must not be called at the
// same time.
type journalFile struct {
	journal *journal
	file    *os.File
	size    int64 // of the lines that hold
	named   bool  // the file's name was synced
	rewrite int64 // the size from which compact is worth it; 0 means compactFrom
}

// compactFrom is the least size of a file that is written anew. Only tasks
// that put out for long get there, by the notes of their batches.
const compactFrom = 256 << 10

// compact writes the file anew as one line, if it has grown enough. After an
// error the old one holds.
func (f *journalFile) compact(r record) error {
	if f.size < max(f.rewrite, compactFrom) {
		return nil
	}
	if f.journal.seal.Load() {
		return errSealed
	}
	r.Version = recordVersion
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding journal record: %w", err)
	}
	path := f.file.Name()
	if err := replaceFile(path, append(line, '\n')); err != nil {
		return fmt.Errorf("compacting journal: %w", err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("opening journal entry: %w", err)
	}
	old := f.file
	f.file, f.size, f.named = file, int64(len(line))+1, false
	f.rewrite = 4 * f.size
	return errors.Join(old.Close(), f.sync())
}

// append writes a line, and with sync makes it and all before it last. After
// an error the line did not happen.
func (f *journalFile) append(r record, sync bool) error {
	if f.journal.seal.Load() {
		return errSealed
	}
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding journal record: %w", err)
	}
	n, err := f.file.WriteAt(append(line, '\n'), f.size)
	if err != nil {
		if n > 0 {
			err = errors.Join(err, f.cut())
		}
		return fmt.Errorf("writing journal: %w", err)
	}
	if sync {
		if err := f.sync(); err != nil {
			return errors.Join(err, f.cut())
		}
	}
	f.size += int64(n)
	return nil
}

func (f *journalFile) sync() error {
	if err := f.file.Sync(); err != nil {
		return fmt.Errorf("syncing journal: %w", err)
	}
	if f.named {
		return nil
	}
	if err := f.journal.sync(); err != nil {
		return err
	}
	f.named = true
	return nil
}

// cut removes what follows the lines that hold.
func (f *journalFile) cut() error {
	if err := f.file.Truncate(f.size); err != nil {
		return fmt.Errorf("cutting journal: %w", err)
	}
	return nil
}

// remove closes and removes the file.
func (f *journalFile) remove() error {
	if f.journal.seal.Load() {
		return errSealed
	}
	err := f.file.Close()
	if removeErr := os.Remove(f.file.Name()); !errors.Is(removeErr, fs.ErrNotExist) {
		err = errors.Join(err, removeErr)
	}
	return err
}

// close closes the file and leaves it.
func (f *journalFile) close() error { return f.file.Close() }
