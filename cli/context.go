package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/run"
)

// Variables of the environment that clients read.
const (
	variableServer  = "DROVER_SERVER"
	variableToken   = "DROVER_TOKEN"
	variableContext = "DROVER_CONTEXT"
)

// Context says which gateway clients speak to that are told nothing. `drover
// dev` writes it.
type Context struct {
	Server    string `yaml:"server"`
	TokenFile string `yaml:"token_file,omitempty"`
}

// ContextPath returns the path of the context file: DROVER_CONTEXT, or
// drover/context.yaml in the user's directory of configurations; "" where the
// user has none.
func ContextPath(env Env) string {
	env = env.withDefaults()
	if path := env.variable(variableContext); path != "" {
		return path
	}
	if env.UserConfigDir == nil {
		return ""
	}
	dir, err := env.UserConfigDir()
	if err != nil {
		return "" // such users name the server
	}
	return filepath.Join(dir, "drover", "context.yaml")
}

// WriteContext makes clients of this user speak to a gateway, and returns the
// path of the file that says so, or "" where the user has no directory for it.
// The file is replaced as a whole.
func WriteContext(env Env, c Context) (string, error) {
	path := ContextPath(env)
	if path == "" {
		return "", nil
	}
	data, err := yaml.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("writing the context: %w", err)
	}
	data = append([]byte("# Written by drover dev; says which gateway the commands of drover speak to.\n"), data...)
	if err := replaceFile(path, data); err != nil {
		return "", fmt.Errorf("writing the context: %w", err)
	}
	return path, nil
}

// readContext reads the context file. One that does not exist is an empty
// context.
func readContext(path string) (Context, error) {
	if path == "" {
		return Context{}, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Context{}, nil
	}
	if err != nil {
		return Context{}, run.Errorf(run.CodeInvalid, "reading the context: %w", err)
	}
	var c Context
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return Context{}, run.Errorf(run.CodeInvalid, "reading the context %s: %w", path, err)
	}
	return c, nil
}

// replaceFile writes a file that is there as a whole or not at all. Nothing is
// synced: it is written again at each start.
func replaceFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
