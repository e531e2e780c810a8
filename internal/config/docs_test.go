package config_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/config"
)

func TestKeys_are_documented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/configuration.md")
	require.NoError(t, err)
	for _, key := range config.Keys() {
		require.Contains(t, string(text), "`"+key+"`")
	}
}
