package archtest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv/pages"
)

// TestMetrics_are_documented checks that docs/metrics.md names exactly the
// metrics of the source, which every package defines in its file metrics.go.
func TestMetrics_are_documented(t *testing.T) {
	t.Parallel()
	const page = "metrics.md"
	var onPage, inSource []string
	for _, m := range regexp.MustCompile("`((?:drover|fleeting)_[a-z_]+)[`{]").FindAllStringSubmatch(pages.Read(t, page), -1) {
		onPage = append(onPage, m[1])
	}
	name := regexp.MustCompile(`"((?:drover|fleeting)_[a-z_]+)"`)
	err := filepath.WalkDir(pages.Path("."), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() != "metrics.go" {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range name.FindAllSubmatch(source, -1) {
			inSource = append(inSource, string(m[1]))
		}
		return err
	})
	require.NoError(t, err)
	require.NotEmpty(t, inSource)
	pages.RequireSame(t, page, inSource, onPage)
}
