package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"gopkg.in/yaml.v3"
)

// tokenFileCheck is how often a token file is looked at for changes, at most:
// a revoked token is good for no longer than this.
const tokenFileCheck = time.Second

// TokenFile is a set of tokens in a YAML file: a list of Token. A change of
// the file takes effect within a second; a file that is no good any more is
// logged and the tokens known before stay.
type TokenFile struct {
	path   string
	logger *slog.Logger
	now    func() time.Time

	mu      sync.Mutex
	tokens  *Tokens
	stamp   fileStamp
	checked time.Time
}

var _ Authenticator = (*TokenFile)(nil)

// fileStamp tells versions of a file apart.
type fileStamp struct {
	modified time.Time
	size     int64
}

// OpenTokenFile reads the file at path.
func OpenTokenFile(path string, logger *slog.Logger) (*TokenFile, error) {
	f := &TokenFile{path: path, logger: logger, now: time.Now}
	if err := f.load(); err != nil {
		return nil, fmt.Errorf("reading token file %s: %w", path, err)
	}
	f.checked = f.now()
	return f, nil
}

// Authenticate implements Authenticator.
func (f *TokenFile) Authenticate(token string) (Principal, bool) {
	return f.current().Authenticate(token)
}

func (f *TokenFile) current() *Tokens {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.now(); now.Sub(f.checked) >= tokenFileCheck {
		f.checked = now
		if err := f.load(); err != nil {
			f.logger.Warn("token file not reloaded", "path", f.path, "error", err)
		}
	}
	return f.tokens
}

// load reads the file if it has changed since the last time.
func (f *TokenFile) load() error {
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
	f.stamp = stamp // a file that is no good is told once, not every second
	tokens, err := readTokens(data)
	if err != nil {
		return err
	}
	f.tokens = tokens
	return nil
}

func readTokens(data []byte) (*Tokens, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	var list []Token
	if err := decoder.Decode(&list); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return NewTokens(list)
}
