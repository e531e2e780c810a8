package process

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

// TokenSource returns the current bearer token. It reads a replaced file within a
// second, so that a credential can be short-lived.
type TokenSource struct {
	path   string // "": the token is a setting
	logger *slog.Logger

	mu       sync.Mutex
	token    string
	checked  time.Time
	modified time.Time // modification time of the token that was read last
}

// NewTokenSource returns the source of a token that is a setting, or in a file.
func NewTokenSource(token config.Secret, file string, logger *slog.Logger) (*TokenSource, error) {
	first, err := SecretOrFile(token, file)
	if err != nil {
		return nil, err
	}
	return &TokenSource{path: file, logger: logger, token: first, checked: time.Now()}, nil
}

// Current returns the token.
func (s *TokenSource) Current() string {
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

func (s *TokenSource) load() error {
	info, err := os.Stat(s.path)
	if err != nil || info.ModTime().Equal(s.modified) {
		return err
	}
	token, err := SecretOrFile("", s.path)
	if err != nil {
		return err
	}
	s.modified = info.ModTime()
	if token != "" {
		s.token = token
	}
	return nil
}

// Replace replaces an expiring token, and stores the new one for the next
// process.
func (s *TokenSource) Replace(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
	if s.path == "" {
		return
	}
	if err := WriteToken(s.path, token); err != nil {
		s.logger.Warn("failed to store the new bearer token; a process that starts after the old one expires has no valid token", "path", s.path, "error", err)
		s.path = "" // the token in the file is older
	}
}

// WriteToken replaces the token in a file. The old token expires, so a power loss
// must not restore it.
func WriteToken(path, token string) error {
	if err := durable.WriteFile(path, []byte(token+"\n")); err != nil {
		return fmt.Errorf("write the token: %w", err)
	}
	return nil
}
