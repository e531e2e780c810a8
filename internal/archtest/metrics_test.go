package archtest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMetrics_are_documented checks that docs/metrics.md names exactly the
// metrics of the source.
func TestMetrics_are_documented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	inDocs, inSource := map[string]bool{}, map[string]bool{}
	for _, m := range regexp.MustCompile("`((?:drover|fleeting)_[a-z_]+)[`{]").FindAllSubmatch(text, -1) {
		inDocs[string(m[1])] = true
	}
	var files []string
	for _, pattern := range []string{"*/metrics.go", "*/*/metrics.go"} {
		found, err := filepath.Glob(filepath.Join("../..", pattern))
		require.NoError(t, err)
		files = append(files, found...)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`"((?:drover|fleeting)_[a-z_]+)"`).FindAllSubmatch(source, -1) {
			inSource[string(m[1])] = true
		}
	}
	require.NotEmpty(t, inSource)
	require.Equal(t, inSource, inDocs)
}
