package cli

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/cli/remote"
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
	put    func(c *remote.Client, ctx context.Context, name string, data []byte, media string) (remote.Answer[A], error)
	show   func(remote.Answer[A]) error
}

// bind makes a command create or update the resource of its file.
func (a applier[T, A]) bind(c *cobra.Command, env Env, conn *connection) *cobra.Command {
	name := ""
	c.Flags().StringVar(&name, "name", "", "name of the "+a.kind+", if the file has none")
	c.Args = cobra.ExactArgs(1)
	c.RunE = func(c *cobra.Command, args []string) error {
		file, err := readSpecFile(env, args[0])
		if err != nil {
			return err
		}
		x, err := a.read(file.data, file.format)
		if err != nil {
			return file.faultOf(err, a.locate)
		}
		name := cmp.Or(name, a.nameOf(x))
		if name == "" {
			return invalid("%s has no name; give one with --name", file.name)
		}
		client, err := conn.open()
		if err != nil {
			return err
		}
		answer, err := a.put(client, c.Context(), name, file.data, file.media())
		if err != nil {
			return file.faultOf(err, a.locate)
		}
		return a.show(answer)
	}
	return c
}
