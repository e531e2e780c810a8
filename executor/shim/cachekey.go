package shim

import (
	"crypto/md5" //nolint:gosec // requested by users; no secret depends on it
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/internal/mask"
	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

// maxQuoted bounds a text of the task that an error quotes, in bytes.
const maxQuoted = 40

// keysRequest holds the templates of a cache's keys and their inputs.
type keysRequest struct {
	Templates   []string          `json:"templates"`
	Dir         string            `json:"dir"` // the step's working directory
	Environment map[string]string `json:"environment"`
	Secrets     []string          `json:"secrets"`
	Time        time.Time         `json:"time"`
}

// evaluate returns the keys. Errors: CodeInvalid, with a message for the user.
func (l *keysRequest) evaluate() ([]string, error) {
	root, err := os.OpenRoot(l.Dir)
	if err != nil {
		return nil, run.Errorf(run.CodeUnavailable, "open the working directory: %w", process.Plain(err))
	}
	defer func() { _ = root.Close() }()
	files := &digester{root: root, dir: filepath.ToSlash(l.Dir)}
	now, hidden := l.Time.UTC(), mask.NewSet(l.Secrets)
	functions := template.FuncMap{
		"sha256": func(globs ...string) (string, error) { return files.digest(sha256.New, globs) },
		"md5":    func(globs ...string) (string, error) { return files.digest(md5.New, globs) },
		"env": func(name string) (string, error) {
			value, ok := l.Environment[name]
			switch {
			case !ok:
				return "", fmt.Errorf("there is no variable %s", name)
			case slices.Contains(l.Secrets, value) && value != "", hidden.String(value) != value:
				return "", fmt.Errorf("the variable %s holds a secret, which can not be part of a key", name)
			}
			return value, nil
		},
		"os":    func() string { return runtime.GOOS },
		"arch":  func() string { return runtime.GOARCH },
		"date":  now.Format,
		"year":  func() string { return now.Format("2006") },
		"month": func() string { return now.Format("01") },
		"day":   func() string { return now.Format("02") },
		"week": func() string {
			_, week := now.ISOWeek()
			return fmt.Sprintf("%02d", week)
		},
	}
	var keys []string
	for _, text := range l.Templates {
		key, err := evaluateKey(text, functions)
		if err == nil && hidden.String(key) != key {
			err = errors.New("it holds a secret")
		}
		if err != nil {
			return nil, run.Errorf(run.CodeInvalid, "the key %q: %w", truncate.String(text, maxQuoted, "..."), err)
		}
		if err := run.CheckCacheKey(key); err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func evaluateKey(text string, functions template.FuncMap) (string, error) {
	t, err := template.New("key").Option("missingkey=error").Funcs(functions).Parse(text)
	if err != nil {
		return "", err
	}
	var key strings.Builder
	if err := t.Execute(&key, nil); err != nil {
		if fault, ok := errors.AsType[template.ExecError](err); ok {
			if cause := errors.Unwrap(fault.Err); cause != nil {
				return "", cause // the error of a function, without the position in the template
			}
		}
		return "", err
	}
	return key.String(), nil
}

// digester hashes files below a directory.
type digester struct {
	root *os.Root
	dir  string
}

// digest hashes the files that match the globs. For one file given by name it is
// the file's own digest; otherwise it is that of a list as sha256sum and md5sum
// print it, sorted by name.
func (d *digester) digest(algorithm func() hash.Hash, globs []string) (string, error) {
	if len(globs) == 0 {
		return "", errors.New("a digest needs the names of files")
	}
	names := make(map[string]bool)
	single := ""
	for _, glob := range globs {
		pattern, err := d.relative(glob)
		if err != nil {
			return "", err
		}
		found, err := doublestar.Glob(d.root.FS(), pattern, doublestar.WithFilesOnly(), doublestar.WithNoFollow(), doublestar.WithFailOnIOErrors())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("look for %s: %w", glob, process.Plain(err))
		}
		if len(found) == 0 {
			return "", fmt.Errorf("no file below the working directory matches %s", glob)
		}
		for _, name := range found {
			names[name] = true
		}
		if len(globs) == 1 && len(found) == 1 && found[0] == pattern {
			single = pattern
		}
	}
	if single != "" {
		return d.file(algorithm, single)
	}
	sum := algorithm()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		digest, err := d.file(algorithm, name)
		if err != nil {
			return "", err
		}
		_, _ = fmt.Fprintf(sum, "%s  %s\n", digest, name) // a hash never fails
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// relative returns a glob relative to the directory.
func (d *digester) relative(glob string) (string, error) {
	pattern := glob
	if path.IsAbs(pattern) {
		below, ok := strings.CutPrefix(pattern, strings.TrimSuffix(d.dir, "/")+"/")
		if !ok {
			return "", fmt.Errorf("%s does not lie below the working directory", glob)
		}
		pattern = below
	}
	pattern = strings.TrimPrefix(path.Clean(pattern), "./")
	if pattern == ".." || strings.HasPrefix(pattern, "../") || strings.Contains(pattern, "/../") {
		return "", fmt.Errorf("%s leads out of the working directory", glob)
	}
	if !doublestar.ValidatePattern(pattern) {
		return "", fmt.Errorf("%q is not a glob", glob)
	}
	return pattern, nil
}

func (d *digester) file(algorithm func() hash.Hash, name string) (string, error) {
	info, err := d.root.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a file", name) // opening a pipe could block
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, process.Plain(err))
	}
	f, err := d.root.Open(name)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, process.Plain(err))
	}
	defer func() { _ = f.Close() }()
	sum := algorithm()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("read %s: %w", name, process.Plain(err))
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
