package process

import (
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/keyring"
	"github.com/drover-run/drover/internal/reload"
)

// SecretOrFile returns a secret of a setting or of a file.
func SecretOrFile(s config.Secret, file string) (string, error) {
	if file == "" {
		return s.Reveal(), nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the secret: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// ReadKeys reads the keys of a setting or of a file. Changes of the file take
// effect within a second.
func ReadKeys(setting string, keys config.Secret, file string, logger *slog.Logger) (*keyring.Ring, error) {
	if file == "" {
		ring, err := keyring.Parse(keys.Reveal())
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", setting, err)
		}
		return ring, nil
	}
	source, err := reload.Open(logger, func(files [][]byte) (*keyring.Ring, error) { return keyring.Parse(string(files[0])) }, file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", setting, err)
	}
	return keyring.Following(source), nil
}
