package command

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/internal/version"
)

// Version returns the command that prints the version of the program.
func Version() *cobra.Command {
	var output render.Format
	c := &cobra.Command{
		Use:               "version",
		Short:             "Print the version of this build",
		Example:           "  drover version\n  drover version -o json",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			if output == render.AsJSON {
				return render.Line(c.OutOrStdout(), map[string]string{
					"version": version.String(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
				})
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "%s %s %s %s/%s\n", c.Root().Name(), version.String(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
	output.AddTo(c, render.AsTable)
	return c
}
