package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/drover-run/drover/tokens"
)

func tokenKeyCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make a key for relays, and put it first in a file of keys",
		Long: `Make a random key and put it first in a file of keys, which relays prove with whom they handed a
task to. All relays that stand for each other have the same file. The first key proves, and all are
believed: to replace one, put a new one before it, give the file to all relays and restart them, and
delete the old key once no task runs that was begun before that.`,
		Example: "  drover token key --file /etc/drover/relay.keys",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return addKey(file) },
	}
	cmd.Flags().StringVar(&file, "file", "", "file of keys; made if it does not exist (0600)")
	_ = cmd.MarkFlagRequired("file")
	return cmd
}

func addKey(file string) error {
	data, err := os.ReadFile(file)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return fmt.Errorf("reading the keys: %w", err)
	default:
		if _, err := tokens.ParseKeys(string(data)); err != nil {
			return fmt.Errorf("reading the keys in %s: %w", file, err)
		}
	}
	if err := renameio.WriteFile(file, append([]byte(tokens.NewKey()+"\n"), data...), 0o600); err != nil {
		return fmt.Errorf("writing the keys: %w", err)
	}
	return nil
}
