package session

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/internal/durable"
	"github.com/drover-run/drover/run"
)

// Environment variables of the client commands.
const (
	variableServer  = "DROVER_SERVER"
	variableToken   = "DROVER_TOKEN"
	variableContext = "DROVER_CONTEXT"
)

// Context is the default gateway of the client commands. `drover dev` writes it.
type Context struct {
	Server    string `yaml:"server"`
	TokenFile string `yaml:"token_file,omitempty"`
}

// ContextPath returns the path of the context file: DROVER_CONTEXT, or
// drover/context.yaml in the user's configuration directory; "" if the user has
// none.
func ContextPath(env Env) string {
	env = env.WithDefaults()
	if path := env.Variable(variableContext); path != "" {
		return path
	}
	if env.UserConfigDir == nil {
		return ""
	}
	dir, err := env.UserConfigDir()
	if err != nil {
		return "" // such users must set the server
	}
	return filepath.Join(dir, "drover", "context.yaml")
}

// WriteContext makes a gateway the default of this user's client commands. It
// returns the path of the context file, or "" if the user has no directory for
// it. It replaces the file atomically.
func WriteContext(env Env, c Context) (string, error) {
	path := ContextPath(env)
	if path == "" {
		return "", nil
	}
	data, err := yaml.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("write the context: %w", err)
	}
	data = append([]byte("# Written by drover dev: the gateway of the drover client commands.\n"), data...)
	if err = durable.MkdirAll(filepath.Dir(path), 0o700); err == nil {
		err = durable.WriteFile(path, data)
	}
	if err != nil {
		return "", fmt.Errorf("write the context: %w", err)
	}
	return path, nil
}

// readContext reads the context file. A missing file is an empty context.
func readContext(path string) (Context, error) {
	if path == "" {
		return Context{}, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Context{}, nil
	}
	if err != nil {
		return Context{}, run.Errorf(run.CodeInvalid, "read the context: %w", err)
	}
	var c Context
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return Context{}, run.Errorf(run.CodeInvalid, "read the context %s: %w", path, err)
	}
	return c, nil
}
