package main

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cmd/internal/process"
	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/logging"
)

// reencryptBatch is the number of secrets that one transaction encrypts again.
const reencryptBatch = 500

func recordsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "records", Short: "Maintain the records", Example: "  drover records reencrypt --config /etc/drover.yaml"}
	cmd.AddCommand(reencryptCommand())
	return cmd
}

func reencryptCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reencrypt",
		Short: "Encrypt the secrets in the records again with the first key",
		Long: `Encrypt all secrets of runs, schedules and webhooks with the first key that are encrypted with another
key or stored in the clear. Other processes may run meanwhile, if they have the key too. The command
can be stopped and started again. Afterwards only the first key is needed.`,
		Example: "  drover records reencrypt --config /etc/drover.yaml",
		Args:    cobra.NoArgs,
	}
	flags := process.Flags(cmd, nil, nil)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := flags.Load(cmd)
		if err != nil {
			return err
		}
		if cfg.Records.Driver == "sqlite" && cfg.Records.Path == "" {
			return command.UsageError(errors.New("records.path: must be set for sqlite; or set another records.driver"))
		}
		return reencrypt(cmd, cfg.Records)
	}
	return cmd
}

func reencrypt(cmd *cobra.Command, r config.Records) (err error) {
	store, err := openRecords(cmd.Context(), r, nil, logging.New(cmd.ErrOrStderr(), "text", slog.LevelWarn))
	if err != nil {
		return fmt.Errorf("open the records: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	total := 0
	for {
		n, err := store.Reencrypt(cmd.Context(), reencryptBatch)
		if err != nil {
			return fmt.Errorf("after %d secrets: %w", total, err)
		}
		if total += n; n == 0 {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d secrets were encrypted again; all are encrypted with the first key\n", total)
			return err
		}
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%d secrets so far\n", total)
	}
}
