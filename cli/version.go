package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/internal/version"
)

func versionCommand(env Env) *cobra.Command {
	var output format
	c := &cobra.Command{
		Use:               "version",
		Short:             "Print the version of this build",
		Example:           "  drover version\n  drover version -o json",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			if output == formatJSON {
				return printLine(env.Stdout, map[string]string{
					"version": version.String(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
				})
			}
			_, err := fmt.Fprintf(env.Stdout, "drover %s %s %s/%s\n", version.String(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
	output.addTo(c, formatTable)
	return c
}
