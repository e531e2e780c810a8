package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/internal/durable"
	"github.com/drover-run/drover/internal/tokens"
)

func tokensCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "tokens", Short: "Create bearer tokens for gateways and relays",
		Example: "  drover tokens create --name ci --scopes read,write --file tokens.yaml",
	}
	cmd.AddCommand(createTokenCommand())
	return cmd
}

func createTokenCommand() *cobra.Command {
	var file, out string
	var scopes []string
	var entry tokens.Token
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create a token, add its hash to a token file, and print it",
		Long: `Create a random token, add its hash to the token file of a gateway, and print the token once: the
file does not contain it. A running gateway reads the change automatically. To revoke a token,
delete its entry.

A token with the scope executor may act as any executor, unless it is bound: --executor restricts it
to one id (with a * at its end, to all ids with this prefix), --pool to the tasks of one pool, --set
allows its executors to join an executor set, and --fleet makes them instances of a fleet. A relay
accepts bound tokens only.`,
		Example: "  drover tokens create --name ci --scopes read,write --file tokens.yaml\n" +
			"  drover tokens create --name host-7 --scopes executor --executor host-7 --pool linux --file tokens.yaml --out executor.token\n" +
			"  drover tokens create --name builders --scopes executor --executor 'builder-*' --pool linux --set builders --file tokens.yaml",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			token, err := addToken(file, entry, scopes)
			if err != nil {
				return err
			}
			if out != "" {
				return os.WriteFile(out, []byte(token+"\n"), 0o600)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
			return err
		},
	}
	cmd.Flags().StringVar(&entry.Name, "name", "", "name of the token, shown in approvals and logs")
	cmd.Flags().StringSliceVar(&scopes, "scopes", []string{string(tokens.Read)}, "scopes of the token: read, write, exec, admin, executor")
	cmd.Flags().StringVar(&entry.Executor, "executor", "", "only for the executor with this id, or with a * at its end for all ids with this prefix")
	cmd.Flags().StringVar(&entry.Pool, "pool", "", "only for tasks of this pool; needs --executor")
	cmd.Flags().StringVar(&entry.Set, "set", "", "for members of this executor set; needs --executor")
	cmd.Flags().StringVar(&entry.Fleet, "fleet", "", "for instances of this fleet only; needs --executor and --pool")
	cmd.Flags().StringVar(&entry.Instance, "instance", "", "for this instance of the fleet only; needs --fleet")
	cmd.Flags().StringVar(&file, "file", "", "token file of the gateway; created if it does not exist")
	cmd.Flags().StringVar(&out, "out", "", "file to write the token to (0600), instead of the standard output")
	_ = cmd.MarkFlagRequired("name")
	_ = cmd.MarkFlagRequired("file")
	return cmd
}

// addToken creates a token and adds its entry to the file, which it replaces
// atomically.
func addToken(file string, entry tokens.Token, scopes []string) (string, error) {
	var list []tokens.Token
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read the token file: %w", err)
	}
	if err := yaml.Unmarshal(data, &list); err != nil {
		return "", fmt.Errorf("read the token file %s: %w", file, err)
	}
	if slices.ContainsFunc(list, func(t tokens.Token) bool { return t.Name == entry.Name }) {
		return "", fmt.Errorf("the token file %s already has a token named %s; delete its entry to replace it", file, entry.Name)
	}
	for _, s := range scopes {
		entry.Scopes = append(entry.Scopes, tokens.Scope(strings.TrimSpace(s)))
	}
	token := tokens.New()
	entry.Hash = tokens.Hash(token)
	if _, err := tokens.NewList([]tokens.Token{entry}); err != nil {
		return "", command.UsageError(err)
	}
	if data, err = yaml.Marshal(append(list, entry)); err != nil {
		return "", fmt.Errorf("write the token file: %w", err)
	}
	if err := durable.WriteFile(file, data); err != nil {
		return "", fmt.Errorf("write the token file: %w", err)
	}
	return token, nil
}
