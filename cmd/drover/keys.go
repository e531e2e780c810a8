package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/internal/durable"
	"github.com/drover-run/drover/internal/keyring"
)

func keysCommand() *cobra.Command {
	create := &cobra.Command{
		Use: "create", Short: "Create a key, and add it to a key file",
		Example: "  drover keys create encryption --file /etc/drover/records.keys\n  drover keys create relay --file /etc/drover/relay.keys",
	}
	create.AddCommand(createEncryptionKeyCommand(), createRelayKeyCommand())
	cmd := &cobra.Command{Use: "keys", Short: "Create keys of gateways, control workers and relays", Example: create.Example}
	cmd.AddCommand(create)
	return cmd
}

func createEncryptionKeyCommand() *cobra.Command {
	var id, file string
	cmd := &cobra.Command{
		Use:   "encryption",
		Short: "Create a key that encrypts secrets in the records, or payloads in Temporal",
		Long: `Create a random key (AES-256) and put it first in a key file, which is created if it does not
exist. The file is for records.keys_file, or for temporal.codec_keys_file. The first key encrypts all
new data; the other keys still decrypt what they encrypted. Without --file the key is printed. All
processes with that setting need the same keys: give a new key to all of them, at the end of the
file, before it is first in any of them.`,
		Example: "  drover keys create encryption --id 2026-11 --file /etc/drover/records.keys\n  DROVER_RECORDS__KEYS=\"$(drover keys create encryption)\" drover start gateway",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if id == "" {
				id = time.Now().UTC().Format(time.DateOnly)
			}
			line, err := keyring.NewKey(id)
			if err != nil {
				return command.UsageError(err)
			}
			if file == "" {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), line)
				return err
			}
			return prependKey(file, line)
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "key ID, stored with everything the key encrypts (today's UTC date if empty)")
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
		return command.UsageError(fmt.Errorf("%s with the new key: %w", file, err))
	}
	if err := durable.WriteFile(file, []byte(text)); err != nil {
		return fmt.Errorf("write the keys: %w", err)
	}
	return nil
}
