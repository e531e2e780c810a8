package process

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/internal/config"
)

// ConfigCommand returns the command that shows the configuration.
func ConfigCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Show the configuration of the processes"}
	var file string
	show := &cobra.Command{
		Use:     "print",
		Short:   "Print the effective configuration, with secrets hidden",
		Long:    "Print the configuration that a process started here would have: the defaults, the file, and the\nenvironment over it. Secrets are hidden. All problems are\nprinted at once, and the exit code is then 2.",
		Example: "  drover config print --config /etc/drover.yaml\n  DROVER_GATEWAY__LISTEN=127.0.0.1:9000 drover config print",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(config.Source{File: file, Environ: os.Environ()})
			if err != nil {
				return command.UsageError(err)
			}
			text, err := cfg.Redacted()
			if err != nil {
				return err
			}
			if _, err := cmd.OutOrStdout().Write(text); err != nil {
				return err
			}
			if err := cfg.Validate(); err != nil {
				return command.UsageError(err)
			}
			return nil
		},
	}
	show.Flags().StringVar(&file, "config", "", "YAML file with the configuration")
	cmd.AddCommand(show)
	return cmd
}
