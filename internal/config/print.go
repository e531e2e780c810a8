package config

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Redacted returns the configuration as YAML with secrets hidden. Without
// secrets, the YAML loads as the same configuration.
func (c Config) Redacted() ([]byte, error) {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(c); err != nil {
		return nil, fmt.Errorf("print the configuration: %w", err)
	}
	return b.Bytes(), nil
}
