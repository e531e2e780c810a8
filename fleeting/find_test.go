//go:build linux

package fleeting_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/fleeting"
)

// TestOpen_confined names plugins as an API client may: only programs in the
// directories of the plugin path are launched.
func TestOpen_confined(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	ran := filepath.Join(root, "ran")
	script := func(path string) string {
		return writeScript(t, filepath.Join(root, path), "echo $0 >> "+ran+"; exit 1\n")
	}
	script("plugins/fleeting-plugin-cloud")
	script("plugins/plain")
	script("plugins/registry.gitlab.com/gitlab-org/fleeting/plugins/aws/1.2.0/plugin")
	script("plugins/example.com/a/b/0.1.0/fleeting-plugin-b")
	script("store/fleeting-plugin-linked")
	outside := script("outside/fleeting-plugin-evil")
	script("outside/1.0.0/plugin")
	script("path/fleeting-plugin-onpath")
	script("plugins-too/fleeting-plugin-sibling")
	t.Setenv("PATH", filepath.Join(root, "path")+":"+os.Getenv("PATH"))
	t.Chdir(filepath.Join(root, "outside"))
	for link, target := range map[string]string{
		"plugins/fleeting-plugin-within":  "plain",
		"plugins/fleeting-plugin-escapes": outside,
		"plugins/directory":               "../outside",
		"linked":                          "store",
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(root, link)))
	}
	path := []string{filepath.Join(root, "missing"), filepath.Join(root, "plugins"), filepath.Join(root, "linked")}
	for plugin, want := range map[string]string{
		"cloud":                              "plugins/fleeting-plugin-cloud",
		"fleeting-plugin-cloud":              "plugins/fleeting-plugin-cloud",
		"plain":                              "plugins/plain",
		"aws":                                "plugins/registry.gitlab.com/gitlab-org/fleeting/plugins/aws/1.2.0/plugin",
		"aws:1.2":                            "plugins/registry.gitlab.com/gitlab-org/fleeting/plugins/aws/1.2.0/plugin",
		"example.com/a/b":                    "plugins/example.com/a/b/0.1.0/fleeting-plugin-b",
		"within":                             "plugins/plain",
		"linked":                             "store/fleeting-plugin-linked",
		filepath.Join(root, "plugins/plain"): "plugins/plain",
		filepath.Join(root, "linked/fleeting-plugin-linked"): "store/fleeting-plugin-linked",

		"escapes": "", "onpath": "", "sh": "", "": "", ".": "", "..": "",
		outside: "", "/bin/sh": "", "./fleeting-plugin-evil": "", "fleeting-plugin-evil": "", "evil": "",
		"../outside/fleeting-plugin-evil": "", "../plugins/plain": "", "../../../outside": "", "a/../../../outside": "", "directory": "",
		filepath.Join(root, "plugins/directory/fleeting-plugin-evil"): "", root + "/plugins/../outside/fleeting-plugin-evil": "",
		root + "/plugins-too/fleeting-plugin-sibling": "", "plain:../../outside": "", "../plugins-too/fleeting-plugin-sibling": "",
	} {
		_ = os.Remove(ran)
		_, err := fleeting.Open(t.Context(), fleeting.Options{Plugin: plugin, Path: path, Confined: true, Dir: t.TempDir()})
		require.Error(t, err)
		text, readErr := os.ReadFile(ran)
		if want == "" {
			require.ErrorIs(t, readErr, os.ErrNotExist, "%s was run: %s", plugin, text)
			require.NotErrorIs(t, err, fleeting.ErrUnavailable, plugin)
			continue
		}
		require.NoError(t, readErr, "%s: %v", plugin, err)
		require.Equal(t, filepath.Join(root, want)+"\n", string(text), plugin)
	}
	_, err = fleeting.Open(t.Context(), fleeting.Options{Plugin: "plain", Confined: true, Dir: t.TempDir()})
	require.ErrorContains(t, err, "no plugin path")
}
