package config

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
)

const redacted = "[redacted]"

// Secret is a string that must not be shown: it prints, logs and marshals as a
// placeholder, or as "" if it is empty. Reveal returns the value.
type Secret string

// String implements fmt.Stringer with a placeholder.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString implements fmt.GoStringer with a placeholder.
func (s Secret) GoString() string { return fmt.Sprintf("%q", s.String()) }

// LogValue implements slog.LogValuer with a placeholder.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText implements encoding.TextMarshaler with a placeholder.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalYAML implements yaml.Marshaler with a placeholder.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// Reveal returns the value.
func (s Secret) Reveal() string { return string(s) }

// ReadDSN returns the connection string, read from its file if that is set.
func (r Records) ReadDSN() (Secret, error) { return readSecret(r.DSN, r.DSNFile, "records.dsn_file") }

// ReadToken returns the bearer token, read from its file if that is set; "" if
// neither is set.
func (e Executor) ReadToken() (Secret, error) {
	return readSecret(e.Token, e.TokenFile, "executor.token_file")
}

func readSecret(value Secret, file, key string) (Secret, error) {
	if file == "" {
		return value, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", key, err)
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		return "", fmt.Errorf("read %s: %s is empty", key, file)
	}
	return Secret(text), nil
}
