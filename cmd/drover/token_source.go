package main

import (
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/drover-run/drover/config"
)

// tokenCheck is how often a token file is looked at for changes, at most.
const tokenCheck = time.Second

// tokenSource returns the bearer token that is good now.
type tokenSource func() string

// newTokenSource returns the configured token, or what its file holds: one that
// is replaced counts within a second, so that a credential can be short-lived.
func newTokenSource(token config.Secret, file string, logger *slog.Logger) (tokenSource, error) {
	first, err := secretOrFile(token, file)
	if err != nil {
		return nil, err
	}
	if file == "" {
		return func() string { return first }, nil
	}
	f := &tokenFile{path: file, logger: logger, token: first, checked: time.Now()}
	return f.current, nil
}

// tokenFile is a file with a bearer token.
type tokenFile struct {
	path   string
	logger *slog.Logger

	mu       sync.Mutex
	token    string
	checked  time.Time
	modified time.Time // of what was read last
}

func (f *tokenFile) current() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.Sub(f.checked) >= tokenCheck {
		f.checked = now
		if err := f.load(); err != nil { // the one before may be good for a while
			f.logger.Warn("bearer token not read again", "path", f.path, "error", err)
		}
	}
	return f.token
}

func (f *tokenFile) load() error {
	info, err := os.Stat(f.path)
	if err != nil || info.ModTime().Equal(f.modified) {
		return err
	}
	token, err := secretOrFile("", f.path)
	if err != nil {
		return err
	}
	f.modified = info.ModTime()
	if token != "" {
		f.token = token
	}
	return nil
}
