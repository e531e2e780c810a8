package secrets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-run/drover/run"
)

// environment provides variables of the process whose names begin with a
// prefix.
type environment struct {
	prefix string
	lookup func(name string) (string, bool)
}

func newEnvironment(x settings, lookup func(string) (string, bool)) (Provider, error) {
	if x.Prefix == "" {
		return nil, errors.New("it needs a prefix for the variables that runs may use")
	}
	return environment{prefix: x.Prefix, lookup: lookup}, nil
}

// Check implements Provider.
func (environment) Check(ref run.SecretRef) error { return noKey(ref) }

// Get implements Provider.
func (e environment) Get(_ context.Context, ref run.SecretRef) (run.Secret, error) {
	if err := e.Check(ref); err != nil {
		return "", err
	}
	name := e.prefix + ref.Name
	value, ok := e.lookup(name)
	if !ok {
		return "", run.Errorf(run.CodeNotFound, "the gateway has no variable %s", name)
	}
	return run.Secret(value), nil
}

// directory provides files of a directory, without a final newline.
type directory struct{ path string }

func newDirectory(x settings) (Provider, error) {
	if !filepath.IsAbs(x.Dir) {
		return nil, fmt.Errorf("dir is %q; it must be an absolute path", x.Dir)
	}
	return directory{x.Dir}, nil
}

// Check implements Provider.
func (directory) Check(ref run.SecretRef) error {
	if err := noKey(ref); err != nil {
		return err
	}
	if !filepath.IsLocal(ref.Name) {
		return run.Errorf(run.CodeInvalid, "the name %q is not a path below the provider's directory", ref.Name)
	}
	return nil
}

// Get implements Provider. It reads nothing outside of the directory. Symbolic
// links are followed only within the directory, as in the volumes in which
// Kubernetes mounts secrets.
func (d directory) Get(_ context.Context, ref run.SecretRef) (run.Secret, error) {
	if err := d.Check(ref); err != nil {
		return "", err
	}
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return "", run.Errorf(run.CodeUnavailable, "open the directory of secrets: %w", err)
	}
	defer func() { _ = root.Close() }()
	f, err := root.Open(filepath.FromSlash(ref.Name))
	if err != nil {
		return "", fileError(ref, err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, run.MaxVariableBytes+1))
	if err != nil {
		return "", fileError(ref, err)
	}
	text := strings.TrimSuffix(string(data), "\n")
	return run.Secret(strings.TrimSuffix(text, "\r")), nil
}

func fileError(ref run.SecretRef, err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return run.Errorf(run.CodeNotFound, "there is no file %s", ref.Name)
	case errors.Is(err, fs.ErrPermission):
		return run.Errorf(run.CodeForbidden, "the gateway may not read the file %s", ref.Name)
	}
	return run.Errorf(run.CodeForbidden, "the file %s cannot be read: %w", ref.Name, err)
}

func noKey(ref run.SecretRef) error {
	if ref.Key != "" {
		return run.Errorf(run.CodeInvalid, "the provider %s has no keys: leave key out", ref.Provider)
	}
	return nil
}
