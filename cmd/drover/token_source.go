package main

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/durable"
)

// tokenCheck is the minimum interval between two checks of a token file for
// changes.
const tokenCheck = time.Second

// tokenSource returns the current bearer token. It reads a replaced file within a
// second, so that a credential can be short-lived.
type tokenSource struct {
	path   string // "": the token is a setting
	logger *slog.Logger

	mu       sync.Mutex
	token    string
	checked  time.Time
	modified time.Time // modification time of the token that was read last
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
		if err := s.load(); err != nil { // the previous token may still be valid
			s.logger.Warn("failed to read bearer token", "path", s.path, "error", err)
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

// replace replaces an expiring token, and stores the new one for the next
// process.
func (s *tokenSource) replace(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
	if s.path == "" {
		return
	}
	if err := writeToken(s.path, token); err != nil {
		s.logger.Warn("failed to store the new bearer token; a process that starts after the old one expires has no valid token", "path", s.path, "error", err)
		s.path = "" // the token in the file is older
	}
}

// writeToken replaces the token in a file. The old token expires, so a power loss
// must not restore it.
func writeToken(path, token string) error {
	if err := durable.WriteFile(path, []byte(token+"\n")); err != nil {
		return fmt.Errorf("write the token: %w", err)
	}
	return nil
}
