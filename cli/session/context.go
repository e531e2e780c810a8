package session

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/internal/durable"
	"github.com/drover-run/drover/internal/suggest"
	"github.com/drover-run/drover/internal/yamlfault"
	"github.com/drover-run/drover/run"
)

// Environment variables of the client commands.
const (
	variableServer  = "DROVER_SERVER"
	variableToken   = "DROVER_TOKEN"
	variableContext = "DROVER_CONTEXT"
)

// Context is a gateway that the client commands know by a name. `drover dev` and
// `drover login` write contexts.
type Context struct {
	Server    string `yaml:"server"`
	TokenFile string `yaml:"token_file,omitempty"`
	CACert    string `yaml:"ca_cert,omitempty"`
}

// Contexts is the content of the context file.
type Contexts struct {
	// Current is the name of the default context, "" for none.
	Current  string             `yaml:"current,omitempty"`
	Contexts map[string]Context `yaml:"contexts,omitempty"`
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

// ReadContexts reads the context file. A missing file has no contexts. Errors:
// invalid.
func ReadContexts(env Env) (Contexts, error) {
	path := ContextPath(env)
	if path == "" {
		return Contexts{}, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Contexts{}, nil
	}
	if err != nil {
		return Contexts{}, run.Errorf(run.CodeInvalid, "read the contexts: %w", err)
	}
	var all Contexts
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&all); err != nil && !errors.Is(err, io.EOF) {
		return Contexts{}, run.Errorf(run.CodeInvalid, "read the contexts %s: %w", path, yamlfault.Error(data, err, all))
	}
	return all, nil
}

// Write replaces the context file atomically. It returns its path, or "" if the user
// has no directory for it.
func (c Contexts) Write(env Env) (string, error) {
	path := ContextPath(env)
	if path == "" {
		return "", nil
	}
	data, err := yaml.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("write the contexts: %w", err)
	}
	data = append([]byte("# The gateways of the drover client commands: drover context list\n"), data...)
	if err = durable.MkdirAll(filepath.Dir(path), 0o700); err == nil {
		err = durable.WriteFile(path, data)
	}
	if err != nil {
		return "", fmt.Errorf("write the contexts: %w", err)
	}
	return path, nil
}

// Put adds a context, or replaces the one of that name.
func (c *Contexts) Put(name string, context Context) {
	if c.Contexts == nil {
		c.Contexts = make(map[string]Context)
	}
	c.Contexts[name] = context
}

// portOf returns the port of a server with its path, in the form of a context's name.
func portOf(server string) string {
	return strings.ReplaceAll(server[strings.LastIndexByte(server, ':')+1:], "/", "-")
}

// Find returns the context of a name, the current one for "". If there is none, and
// none is asked for, it is the zero value. Errors: invalid.
func (c Contexts) Find(name string) (Context, error) {
	asked := name
	if name == "" {
		name = c.Current
	}
	if found, ok := c.Contexts[name]; ok || asked == "" && name == "" {
		return found, nil
	}
	hint := "; drover context list shows those that exist"
	if near := suggest.Nearest(name, c.Names()); near != "" {
		hint = fmt.Sprintf("; did you mean %s?", near)
	}
	return Context{}, run.Errorf(run.CodeInvalid, "there is no context %q%s", name, hint)
}

// Names returns the names of the contexts, sorted.
func (c Contexts) Names() []string {
	names := make([]string, 0, len(c.Contexts))
	for name := range c.Contexts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// AddContext adds the context of a server that has just started, and returns its name:
// name, or one with the port of the server, if that name stands for another server
// that answers. It becomes the current context unless another one is. current reports
// whether it is. A damaged file is replaced.
func AddContext(env Env, name string, context Context, answers func(server string) bool) (_ string, current bool, err error) {
	all, err := ReadContexts(env)
	if err != nil {
		all = Contexts{}
	}
	if known, ok := all.Contexts[name]; ok && !sameServer(known.Server, context.Server) && answers(known.Server) {
		name += "-" + portOf(context.Server)
	}
	all.Put(name, context)
	if _, known := all.Contexts[all.Current]; !known {
		all.Current = name
	}
	_, err = all.Write(env)
	return name, all.Current == name, err
}
