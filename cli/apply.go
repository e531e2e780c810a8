package cli

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

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

// newApplier returns the applier for a resource whose file has the keys of the
// API, of which one is required.
func newApplier[T, A any](
	kind, required string, put func(*remote.Client, context.Context, string, T) (remote.Answer[A], error), show func(remote.Answer[A]) error,
) applier[spec.Resource[T], A] {
	return applier[spec.Resource[T], A]{
		kind: kind, nameOf: func(x *spec.Resource[T]) string { return x.Name },
		read: func(data []byte, format spec.Format) (*spec.Resource[T], error) {
			return spec.ReadResource[T](kind, required, data, format)
		},
		locate: func(faults []run.Fault, data []byte, format spec.Format) []run.Fault {
			return spec.LocateResource[T](kind, faults, data, format)
		},
		put: func(ctx context.Context, c *remote.Client, name string, x *spec.Resource[T], _ *specFile) (remote.Answer[A], error) {
			return put(c, ctx, name, x.Spec)
		},
		show: show,
	}
}
