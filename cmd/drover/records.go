package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/cli"
	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/durable"
	"github.com/drover-run/drover/internal/keyring"
)

// resealBatch is the number of secrets that one transaction encrypts again.
const resealBatch = 500

func recordsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "records", Short: "Manage the keys of the secrets in the records"}
	cmd.AddCommand(recordsKeyCommand(), recordsResealCommand())
	return cmd
}

func recordsKeyCommand() *cobra.Command {
	var id, file string
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Create a key that encrypts the secrets in the records",
		Long: `Create a random key (AES-256) and put it first in a key file, which is created if it does not
exist. The first key encrypts all new secrets; the other keys still decrypt what they encrypted.
Without --file the key is printed. Every gateway and control worker needs the same keys: give a
new key to all of them, at the end of the file, before it is first in any of them.`,
		Example: "  drover records key --id 2026-11 --file /etc/drover/records.keys\n  DROVER_RECORDS__KEYS=\"$(drover records key)\" drover gateway",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			line, err := keyring.NewKey(id)
			if err != nil {
				return cli.UsageError(err)
			}
			if file == "" {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), line)
				return err
			}
			return prependKey(file, line)
		},
	}
	cmd.Flags().StringVar(&id, "id", time.Now().UTC().Format("2006-01-02"), "id of the key, which is stored with everything that the key encrypts")
	cmd.Flags().StringVar(&file, "file", "", "key file")
	return cmd
}

// prependKey replaces the file atomically by one with the key as its first.
func prependKey(file, line string) error {
	was, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the keys: %w", err)
	}
	text := line + "\n" + string(was)
	if _, err := keyring.Parse(text); err != nil {
		return cli.UsageError(fmt.Errorf("%s with the new key: %w", file, err))
	}
	if err := durable.WriteFile(file, []byte(text)); err != nil {
		return fmt.Errorf("write the keys: %w", err)
	}
	return nil
}

// createKeyFile creates a file with one key if there is none.
func createKeyFile(file string) error {
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	line, err := keyring.NewKey("dev")
	if err != nil {
		return err
	}
	return prependKey(file, line)
}

func recordsResealCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reseal",
		Short: "Encrypt the secrets in the records again with the first key",
		Long: `Encrypt all secrets of runs, schedules and webhooks with the first key that are encrypted with another
key or stored in the clear. Other processes may run meanwhile, if they have the key too. The command
can be stopped and started again. Afterwards only the first key is needed.`,
		Example: "  drover records reseal --config /etc/drover.yaml",
		Args:    cobra.NoArgs,
	}
	flags := configFlags(cmd, nil, nil)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := flags.load(cmd)
		if err != nil {
			return err
		}
		if cfg.Records.Driver == "sqlite" && cfg.Records.Path == "" {
			return cli.UsageError(errors.New("records.path: must be set for sqlite; or set another records.driver"))
		}
		return reseal(cmd, cfg.Records)
	}
	return cmd
}

func reseal(cmd *cobra.Command, r config.Records) (err error) {
	store, err := openRecords(cmd.Context(), r, nil)
	if err != nil {
		return fmt.Errorf("open the records: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	total := 0
	for {
		n, err := store.Reseal(cmd.Context(), resealBatch)
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
