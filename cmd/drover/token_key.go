package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/internal/durable"
	"github.com/drover-run/drover/tokens"
)

func tokenKeyCommand() *cobra.Command {
	var file string
	var last bool
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make a key for relays and gateways, and add it to a file of keys",
		Long: `Make a random key and add it to a file of keys, with which relays prove whom they handed a task to.
All relays that stand for each other, and their gateways, have the same file. The first key proves,
and all are believed: so to replace one, put a new one last, give the file to all and restart them,
then move it to the first line and do so again, and delete the old one when no task is left that was
handed out before.`,
		Example: "  drover token key --file /etc/drover/relay.keys\n  drover token key --file /etc/drover/relay.keys --last",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return addKey(file, last) },
	}
	cmd.Flags().BoolVar(&last, "last", false, "put the key last: it is believed, but does not prove yet")
	cmd.Flags().StringVar(&file, "file", "", "file of keys; made if it does not exist (0600)")
	_ = cmd.MarkFlagRequired("file")
	return cmd
}

func addKey(file string, last bool) error {
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
	text := tokens.NewKey() + "\n" + string(data)
	if last && len(data) > 0 {
		text = strings.TrimRight(string(data), "\n") + "\n" + tokens.NewKey() + "\n"
	}
	if err := durable.WriteFile(file, []byte(text)); err != nil {
		return fmt.Errorf("writing the keys: %w", err)
	}
	return nil
}
