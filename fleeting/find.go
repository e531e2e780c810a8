package fleeting

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// pluginPrefix is the prefix of plugin binaries.
const pluginPrefix = "fleeting-plugin-"

// The repository that short names of installed plugins refer to.
const (
	defaultRegistry  = "registry.gitlab.com"
	defaultNamespace = "gitlab-org/fleeting/plugins"
)

// Find resolves a plugin: a path if it has a separator, otherwise a name. It
// looks up a name in the directories, first as a file, with and without the
// usual prefix. Next it looks for a repository that the plugin's own bootstrap
// command installed there, optionally with :VERSION (the newest match). Last it
// searches PATH.
func Find(plugin string, path []string) (string, error) {
	if plugin == "" {
		return "", errors.New("no plugin is specified")
	}
	if filepath.IsAbs(plugin) || strings.HasPrefix(plugin, "./") || strings.HasPrefix(plugin, "../") {
		return executable(plugin)
	}
	if found := lookUp(plugin, path); found != "" {
		return found, nil
	}
	name, version, _ := strings.Cut(plugin, ":")
	base := filepath.Base(name)
	if version == "" && base == name {
		for _, file := range []string{pluginPrefix + name, name} {
			if found, err := exec.LookPath(file); err == nil {
				return executable(found)
			}
		}
	}
	if found, err := executable(plugin); err == nil { // a relative path without a leading dot
		return found, nil
	}
	return "", fmt.Errorf("plugin %q: not a file, and neither the plugin path (%s) nor PATH has %s%s or %s",
		plugin, strings.Join(path, ":"), pluginPrefix, base, base)
}

// findConfined resolves a plugin in one of the directories, also after it has
// followed symbolic links.
func findConfined(plugin string, path []string) (string, error) {
	if len(path) == 0 {
		return "", errors.New("no plugin path is set: no directory has plugins that may be run")
	}
	found := ""
	switch {
	case filepath.IsAbs(plugin):
		found = plugin
	case filepath.IsLocal(filepath.FromSlash(plugin)):
		found = lookUp(plugin, path)
	}
	if found != "" {
		if resolved, err := filepath.EvalSymlinks(found); err == nil && within(resolved, path) {
			return executable(resolved)
		}
	}
	return "", fmt.Errorf("plugin %q: not found in the plugin path (%s)", plugin, strings.Join(path, ":"))
}

// within reports whether a path without symbolic links is below one of the
// directories.
func within(resolved string, path []string) bool {
	return slices.ContainsFunc(path, func(dir string) bool {
		dir, err := filepath.Abs(dir)
		if err == nil {
			dir, err = filepath.EvalSymlinks(dir)
		}
		if err != nil {
			return false
		}
		below, err := filepath.Rel(dir, resolved)
		return err == nil && below != "." && filepath.IsLocal(below)
	})
}

// lookUp finds a name in the directories; it returns "" if none has it.
func lookUp(plugin string, path []string) string {
	name, version, _ := strings.Cut(plugin, ":")
	base := filepath.Base(name)
	for _, dir := range path {
		if version == "" && base == name {
			for _, file := range []string{pluginPrefix + name, name} {
				if found, err := executable(filepath.Join(dir, file)); err == nil {
					return found
				}
			}
		}
		if found := installed(filepath.Join(dir, filepath.FromSlash(repository(name))), base, version); found != "" {
			return found
		}
	}
	return ""
}

// executable checks that a path is an executable file, and returns its absolute
// path.
func executable(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("plugin %s: no such file", path)
	case err != nil:
		return "", fmt.Errorf("plugin: %w", err)
	case info.IsDir():
		return "", fmt.Errorf("plugin %s: is a directory", path)
	case info.Mode()&0o111 == 0:
		return "", fmt.Errorf("plugin %s: not executable (chmod +x)", path)
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", fmt.Errorf("plugin: %w", err)
	}
	return path, nil
}

// repository completes a short name in the way the fleeting installer does.
func repository(name string) string {
	parts := strings.Split(name, "/")
	switch {
	case len(parts) == 1:
		return defaultRegistry + "/" + defaultNamespace + "/" + name
	case !strings.Contains(parts[0], "."):
		return defaultRegistry + "/" + name
	}
	return name
}

// installed returns the newest version in a directory of versions that begins
// with the given prefix; "" and latest match all.
func installed(dir, base, want string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	var best *semver.Version
	var found string
	for _, e := range entries {
		version, err := semver.NewVersion(e.Name())
		if err != nil || !matches(e.Name(), want) || (best != nil && !version.GreaterThan(best)) {
			continue
		}
		for _, file := range []string{"plugin", pluginPrefix + base, base} {
			if path, err := executable(filepath.Join(dir, e.Name(), file)); err == nil {
				best, found = version, path
				break
			}
		}
	}
	return found
}

func matches(version, want string) bool {
	return want == "" || want == "latest" || version == want || strings.HasPrefix(version, want+".")
}

// digestOf returns the SHA-256 of a file in hex.
func digestOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("open the plugin: %w", err)
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read the plugin: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
