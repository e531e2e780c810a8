package main

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/drover-run/drover/config"
	"github.com/drover-run/drover/internal/durable"
)

// tokenCheck is how often a token file is looked at for changes, at most.
const tokenCheck = time.Second

// tokenSource knows the bearer token that is good now. One in a file that is
// replaced counts within a second, so that a credential can be short-lived.
type tokenSource struct {
	path   string // "": it was configured itself
	logger *slog.Logger

	mu       sync.Mutex
	token    string
	checked  time.Time
	modified time.Time // of what was read last
}

func newTokenSource(token config.Secret, file string, logger *slog.Logger) (*tokenSource, error) {
	first, err := secretOrFile(token, file)
	if err != nil {
		return nil, err
	}
	return &tokenSource{path: file, logger: logger, token: first, checked: time.Now()}, nil
}

// current returns the token.
func (s *tokenSource) current() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.path != "" && now.Sub(s.checked) >= tokenCheck {
		s.checked = now
		if err := s.load(); err != nil { // the one before may be good for a while
			s.logger.Warn("bearer token not read again", "path", s.path, "error", err)
		}
	}
	return s.token
}

func (s *tokenSource) load() error {
	info, err := os.Stat(s.path)
	if err != nil || info.ModTime().Equal(s.modified) {
		return err
	}
	token, err := secretOrFile("", s.path)
	if err != nil {
		return err
	}
	s.modified = info.ModTime()
	if token != "" {
		s.token = token
	}
	return nil
}

// replace takes another token in the place of one that expires, and keeps it for
// the next process.
func (s *tokenSource) replace(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
	if s.path == "" {
		return
	}
	if err := writeToken(s.path, token); err != nil {
		s.logger.Warn("the new bearer token is not kept, and a process that starts after the old one expired has none", "path", s.path, "error", err)
		s.path = "" // what is there is older
	}
}

// writeToken puts a token in the place of the one in a file. The old one expires,
// so a loss of power must not bring it back.
func writeToken(path, token string) error {
	if err := durable.WriteFile(path, []byte(token+"\n")); err != nil {
		return fmt.Errorf("writing the token: %w", err)
	}
	return nil
}
