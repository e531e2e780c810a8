package spec_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/spec"
)

// TestExamples validates the examples.
func TestExamples(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("../examples/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		_, err = spec.Validate(data, spec.FormatYAML)
		require.NoError(t, err, "%s: %v", name, faults(err))
	}
}
