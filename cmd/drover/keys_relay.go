package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/internal/durable"
	"github.com/drover-run/drover/internal/tokens"
)

func createRelayKeyCommand() *cobra.Command {
	var file string
	var last bool
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Create a key for relays and gateways, and add it to a key file",
		Long: `Create a random key and add it to a key file. Relays sign claim proofs with it: proofs of which
executor they handed a task to. All interchangeable relays and their gateways have the same file.
The first key signs, and all keys verify. To replace a key: add a new one with --last, copy the file
to all hosts, whose processes read it at once; move the new key to the first line and do so again; delete
the old key when no task is left that was handed out before.`,
		Example: "  drover keys create relay --file /etc/drover/relay.keys\n  drover keys create relay --file /etc/drover/relay.keys --last",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return addKey(file, last) },
	}
	cmd.Flags().BoolVar(&last, "last", false, "put the key last: it verifies claim proofs, but does not sign them yet")
	cmd.Flags().StringVar(&file, "file", "", "key file; created if it does not exist (0600)")
	_ = cmd.MarkFlagRequired("file")
	return cmd
}

func addKey(file string, last bool) error {
	data, err := os.ReadFile(file)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return fmt.Errorf("read the keys: %w", err)
	default:
		if _, err := tokens.ParseKeys(string(data)); err != nil {
			return fmt.Errorf("read the keys in %s: %w", file, err)
		}
	}
	text := tokens.NewKey() + "\n" + string(data)
	if last && len(data) > 0 {
		text = strings.TrimRight(string(data), "\n") + "\n" + tokens.NewKey() + "\n"
	}
	if err := durable.WriteFile(file, []byte(text)); err != nil {
		return fmt.Errorf("write the keys: %w", err)
	}
	return nil
}
