package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// applier describes how to apply a file of a resource T, for which the gateway
// answers with A.
type applier[T, A any] struct {
	kind   string // "fleet"
	read   func([]byte, spec.Format) (*T, error)
	locate func([]run.Fault, []byte, spec.Format) []run.Fault
	nameOf func(*T) string
	put    func(ctx context.Context, c *remote.Client, name string, x *T, file *specFile) (remote.Answer[A], error)
	show   func(remote.Answer[A]) error
}

// bind makes c the command "apply -f FILE", which creates or updates the resource
// of each file.
func (a applier[T, A]) bind(c *cobra.Command, env session.Env, conn *session.Connection) *cobra.Command {
	name, files := "", []string(nil)
	c.Use = "apply -f FILE"
	c.Flags().StringArrayVarP(&files, "file", "f", nil, "YAML or JSON file with the "+a.kind+", - for standard input (repeatable)")
	c.Flags().StringVar(&name, "name", "", "name of the "+a.kind+", if the file has none")
	_ = c.MarkFlagFilename("file", "yaml", "yml", "json")
	c.ValidArgsFunction = cobra.NoFileCompletions
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case len(args) > 0:
			return command.Invalid("a file is given with -f: %s -f %s", c.CommandPath(), args[0])
		case len(files) == 0:
			return command.Invalid("no file is given: %s -f FILE", c.CommandPath())
		case len(files) > 1 && name != "":
			return command.Invalid("--name is for one file, and not for %d", len(files))
		}
		return forEach(files, func(file string) error { return a.apply(c.Context(), env, conn, file, name) })
	}
	return c
}

func (a applier[T, A]) apply(ctx context.Context, env session.Env, conn *session.Connection, path, name string) error {
	file, err := readSpecFile(env, path)
	if err != nil {
		return err
	}
	x, err := a.read(file.data, file.format)
	if err != nil {
		return file.faultOf(err, a.locate)
	}
	if name = cmp.Or(name, a.nameOf(x)); name == "" {
		return command.Invalid("%s has no name; give one with --name", file.name)
	}
	client, err := conn.Open()
	if err != nil {
		return err
	}
	answer, err := a.put(ctx, client, name, x, file)
	if err != nil {
		return file.faultOf(err, a.locate)
	}
	return a.show(answer)
}

// resource is the content of a file whose keys are a name and those of T.
type resource[T any] struct {
	name string
	spec T
}

// newApplier returns the applier for a resource whose file has the keys of the
// API, of which one is required.
func newApplier[T, A any](
	kind, required string, put func(*remote.Client, context.Context, string, T) (remote.Answer[A], error), show func(remote.Answer[A]) error,
) applier[resource[T], A] {
	return applier[resource[T], A]{
		kind: kind, nameOf: func(x *resource[T]) string { return x.name },
		read:   func(data []byte, _ spec.Format) (*resource[T], error) { return readResource[T](data, required) },
		locate: func(faults []run.Fault, _ []byte, _ spec.Format) []run.Fault { return faults },
		put: func(ctx context.Context, c *remote.Client, name string, x *resource[T], _ *specFile) (remote.Answer[A], error) {
			return put(c, ctx, name, x.spec)
		},
		show: show,
	}
}

// readResource reads a resource from YAML or JSON. It refuses unknown keys, and a
// file without the required one.
func readResource[T any](data []byte, required string) (*resource[T], error) {
	var keys map[string]any
	if err := yaml.Unmarshal(data, &keys); err != nil {
		return nil, spec.YAMLError(data, err)
	}
	x := &resource[T]{}
	if name, ok := keys["name"]; ok {
		if x.name, ok = name.(string); !ok {
			return nil, run.Errorf(run.CodeInvalid, "name: must be a string")
		}
		delete(keys, "name")
	}
	if _, ok := keys[required]; !ok {
		return nil, run.Errorf(run.CodeInvalid, "%s is missing", required)
	}
	text, err := json.Marshal(keys)
	if err != nil {
		return nil, run.Errorf(run.CodeInvalid, "%w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&x.spec); err != nil {
		return nil, run.Errorf(run.CodeInvalid, "%w", err)
	}
	return x, nil
}
