package tokens

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/internal/yamlfault"
)

// fileCheck is the shortest time between two checks of a token file for
// changes: a revoked token is valid for at most this time.
const fileCheck = time.Second

// File is a YAML file that lists tokens, each a Token. A change of the file
// takes effect within a second. If the changed file is invalid, File logs the
// error and keeps the previous tokens.
type File struct {
	path   string
	logger *slog.Logger
	now    func() time.Time

	mu      sync.Mutex
	list    *List
	stamp   fileStamp
	checked time.Time
}

var _ Authenticator = (*File)(nil)

// fileStamp identifies a version of a file.
type fileStamp struct {
	modified time.Time
	size     int64
}

// OpenFile reads the file at path.
func OpenFile(path string, logger *slog.Logger) (*File, error) {
	f := &File{path: path, logger: logger, now: time.Now}
	if err := f.load(); err != nil {
		return nil, fmt.Errorf("read token file %s: %w", path, err)
	}
	f.checked = f.now()
	return f, nil
}

// Authenticate implements Authenticator.
func (f *File) Authenticate(token string) (Principal, bool) {
	return f.current().Authenticate(token)
}

// AuthenticateHash is like Authenticate for the hash of a token.
func (f *File) AuthenticateHash(hash string) (Principal, bool) {
	return f.current().AuthenticateHash(hash)
}

// Tokens returns the entries of the file.
func (f *File) Tokens() []Token { return f.current().Tokens() }

func (f *File) current() *List {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.now(); now.Sub(f.checked) >= fileCheck {
		f.checked = now
		if err := f.load(); err != nil {
			f.logger.Warn("failed to reload token file", "path", f.path, "error", err)
		}
	}
	return f.list
}

// load reads the file if it has changed since the last call.
func (f *File) load() error {
	info, err := os.Stat(f.path)
	if err != nil {
		return err
	}
	stamp := fileStamp{modified: info.ModTime(), size: info.Size()}
	if stamp == f.stamp {
		return nil
	}
	data, err := os.ReadFile(f.path)
	if err != nil {
		return err
	}
	f.stamp = stamp // an invalid file is logged once, not every second
	list, err := readList(data)
	if err != nil {
		return err
	}
	f.list = list
	return nil
}

func readList(data []byte) (*List, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	var tokens []Token
	if err := decoder.Decode(&tokens); err != nil && !errors.Is(err, io.EOF) {
		return nil, yamlfault.Error(data, err, tokens)
	}
	return NewList(tokens)
}
