package statedir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/internal/durable"
	"github.com/drover-run/drover/run"
)

// Journal is an executor.Journal in a directory, with one file per key. A line that a crash cut
// off counts as not written. An append survives the death of the process without a
// sync; records that must survive the death of the host are synced.
type Journal struct {
	dir string
	id  string
}

var _ executor.Journal = (*Journal)(nil)

// NewJournal returns the journal with an id in a directory, which must exist.
func NewJournal(dir, id string) *Journal { return &Journal{dir: dir, id: id} }

const journalSuffix = ".jsonl"

// ID implements Journal.
func (j *Journal) ID() string { return j.id }

// Load implements Journal. It ignores files whose names are not keys.
func (j *Journal) Load() ([]executor.JournalEntry, error) {
	list, err := os.ReadDir(j.dir)
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	var all []executor.JournalEntry
	for _, d := range list {
		name, ok := strings.CutSuffix(d.Name(), journalSuffix)
		key, err := run.ParseKey(name)
		if !ok || err != nil {
			continue
		}
		p, err := j.open(key)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func (j *Journal) path(key run.Key) string {
	return filepath.Join(j.dir, key.String()+journalSuffix)
}

// open reads the file of a key and truncates a torn last line.
func (j *Journal) open(key run.Key) (executor.JournalEntry, error) {
	path := j.path(key)
	content, err := os.ReadFile(path)
	if err != nil {
		return executor.JournalEntry{}, fmt.Errorf("read journal entry: %w", err)
	}
	content = content[:bytes.LastIndexByte(content, '\n')+1]
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return executor.JournalEntry{}, fmt.Errorf("open journal entry: %w", err)
	}
	lines := &fileLines{journal: j, file: f, size: int64(len(content))}
	if err := lines.cut(); err != nil {
		return executor.JournalEntry{}, errors.Join(err, f.Close())
	}
	return executor.JournalEntry{Key: key, Content: content, Lines: lines}, nil
}

// Create implements Journal.
func (j *Journal) Create(key run.Key, line []byte) (executor.Lines, error) {
	f, err := os.OpenFile(j.path(key), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, run.Errorf(run.CodeConflict, "the journal has %s already", key)
	case err != nil:
		return nil, fmt.Errorf("create journal entry: %w", err)
	}
	lines := &fileLines{journal: j, file: f}
	if err := lines.Append(line, executor.Kept); err != nil {
		return nil, errors.Join(err, lines.Remove())
	}
	return lines, nil
}

// Check implements Journal.
func (j *Journal) Check() error {
	f, err := os.CreateTemp(j.dir, ".check-*")
	if err != nil {
		return fmt.Errorf("check journal: %w", err)
	}
	_, err = f.WriteString("check\n")
	if err = errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name())); err != nil {
		return fmt.Errorf("check journal: %w", err)
	}
	return nil
}

// Close implements Journal: the files are closed one by one.
func (j *Journal) Close() error { return nil }

// fileLines is the file of one key.
type fileLines struct {
	journal *Journal
	file    *os.File
	size    int64 // of the valid lines
	named   bool  // the file's name was synced
	rewrite int64 // size from which a rewrite pays; 0 means CompactFrom
}

// CompactFrom is the least size of a file that is rewritten. Only tasks with long
// output reach it, through the records of their batches.
const CompactFrom = 256 << 10

// NeedsRewrite implements Lines.
func (f *fileLines) NeedsRewrite() bool { return f.size >= max(f.rewrite, CompactFrom) }

// Rewrite implements Lines.
func (f *fileLines) Rewrite(line []byte) error {
	path := f.file.Name()
	if err := durable.WriteFile(path, append(line, '\n')); err != nil {
		return fmt.Errorf("compact journal: %w", err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("open journal entry: %w", err)
	}
	old := f.file
	f.file, f.size, f.named = file, int64(len(line))+1, true
	f.rewrite = 4 * f.size
	return old.Close()
}

// Append implements Lines. A lazy line costs no more than a kept one.
func (f *fileLines) Append(line []byte, d executor.Durability) error {
	n, err := f.file.WriteAt(append(line, '\n'), f.size)
	if err != nil {
		if n > 0 {
			err = errors.Join(err, f.cut())
		}
		return fmt.Errorf("write journal: %w", err)
	}
	if d == executor.Synced {
		if err := f.sync(); err != nil {
			return errors.Join(err, f.cut())
		}
	}
	f.size += int64(n)
	return nil
}

func (f *fileLines) sync() error {
	if err := f.file.Sync(); err != nil {
		return fmt.Errorf("sync journal: %w", err)
	}
	if f.named {
		return nil
	}
	if err := durable.SyncDir(f.journal.dir); err != nil {
		return fmt.Errorf("sync journal: %w", err)
	}
	f.named = true
	return nil
}

// cut truncates the file after the valid lines.
func (f *fileLines) cut() error {
	if err := f.file.Truncate(f.size); err != nil {
		return fmt.Errorf("truncate journal: %w", err)
	}
	return nil
}

// Remove implements Lines.
func (f *fileLines) Remove() error {
	err := f.file.Close()
	if removeErr := os.Remove(f.file.Name()); !errors.Is(removeErr, fs.ErrNotExist) {
		err = errors.Join(err, removeErr)
	}
	return err
}

// Close implements Lines.
func (f *fileLines) Close() error { return f.file.Close() }
