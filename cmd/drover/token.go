package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/drover-run/drover/gateway"
)

func tokenCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "token", Short: "Make bearer tokens for a gateway"}
	cmd.AddCommand(tokenNewCommand())
	return cmd
}

func tokenNewCommand() *cobra.Command {
	var name, file, out string
	var scopes []string
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Make a token, add its hash to a token file, and print it",
		Long: `Make a random token, add its hash to the token file of a gateway, and print the token once: the
file does not hold it. A running gateway takes the change by itself. To take a token back, delete
its entry.`,
		Example: "  drover token new --name ci --scopes read,write --file tokens.yaml\n  drover token new --name host-7 --scopes executor --file tokens.yaml --out executor.token",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			token, err := addToken(file, name, scopes)
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
	cmd.Flags().StringVar(&name, "name", "", "whose token it is; approvals and logs show it")
	cmd.Flags().StringSliceVar(&scopes, "scopes", []string{"read"}, "what it may do: read, write, admin, executor")
	cmd.Flags().StringVar(&file, "file", "", "token file of the gateway; made if it does not exist")
	cmd.Flags().StringVar(&out, "out", "", "file that takes the token (0600) instead of the standard output")
	_ = cmd.MarkFlagRequired("name")
	_ = cmd.MarkFlagRequired("file")
	return cmd
}

// addToken makes a token and writes its hash to the file, whole or not at all.
func addToken(file, name string, scopes []string) (string, error) {
	var tokens []gateway.Token
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("reading the token file: %w", err)
	}
	if err := yaml.Unmarshal(data, &tokens); err != nil {
		return "", fmt.Errorf("reading the token file %s: %w", file, err)
	}
	if slices.ContainsFunc(tokens, func(t gateway.Token) bool { return t.Name == name }) {
		return "", fmt.Errorf("the token file %s has a token named %s already; delete its entry to replace it", file, name)
	}
	token := gateway.NewToken()
	entry := gateway.Token{Name: name, Hash: gateway.HashToken(token)}
	for _, s := range scopes {
		scope := gateway.Scope(strings.TrimSpace(s))
		if !scope.Valid() {
			return "", fmt.Errorf("there is no scope %q; the scopes are read, write, admin and executor", s)
		}
		entry.Scopes = append(entry.Scopes, scope)
	}
	if data, err = yaml.Marshal(append(tokens, entry)); err != nil {
		return "", fmt.Errorf("writing the token file: %w", err)
	}
	if err := renameio.WriteFile(file, data, 0o600); err != nil {
		return "", fmt.Errorf("writing the token file: %w", err)
	}
	return token, nil
}
