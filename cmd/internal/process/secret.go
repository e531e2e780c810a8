package process

import (
	"fmt"
	"os"
	"strings"

	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/keyring"
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

// ReadKeys reads the keys of a setting or of a file.
func ReadKeys(setting string, keys config.Secret, file string) (*keyring.Ring, error) {
	text, err := SecretOrFile(keys, file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", setting, err)
	}
	ring, err := keyring.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", setting, err)
	}
	return ring, nil
}
