package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/session"
	clienttokens "github.com/drover-run/drover/cli/tokens"
	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/durable"
	"github.com/drover-run/drover/internal/roles"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/internal/yamlfault"
	"github.com/drover-run/drover/run"
)

func tokensCommand(env session.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "tokens", Short: "Create, list and revoke bearer tokens for gateways and relays",
		Example: "  drover tokens create --name ci --scopes read,write --expires-in 2160h --file tokens.yaml\n  drover tokens list\n  drover tokens revoke ci",
	}
	cmd.AddCommand(createTokenCommand(env), clienttokens.ListCommand(env), revokeTokenCommand(env))
	return cmd
}

func revokeTokenCommand(env session.Env) *cobra.Command {
	conn, file := session.New(env), ""
	cmd := &cobra.Command{
		Use:   "revoke NAME",
		Short: "Revoke a token at all gateways",
		Long: `Revoke a token. All gateways refuse it within ten seconds, with the code token_revoked, also if their token
files still have its entry. This is permanent: to give the owner access again, delete the entry and create
another token. It requires the scope admin. The relay in the process of a gateway refuses the token too. A
relay of its own process does not read revocations: also delete the entry from its token file.

With --file the command deletes the entry from that file instead, without a call. A gateway or relay that
reads the file refuses the token within a second.`,
		Example:           "  drover tokens revoke ci\n  drover tokens revoke host-7 --file relay-tokens.yaml",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return clienttokens.Revoke(cmd, env, conn, args[0])
			}
			return deleteToken(file, args[0])
		},
	}
	conn.AddTo(cmd)
	cmd.Flags().StringVar(&file, "file", "", "token file from which the entry is deleted, instead of a call of a gateway")
	return cmd
}

func createTokenCommand(env session.Env) *cobra.Command {
	var file, out string
	var scopes, bind []string
	var lifetime time.Duration
	var entry tokens.Token
	conn := session.New(env)
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create a token, and print it",
		Long: `Create a random token, and print it once. With --file the command adds its hash to the token file of a
gateway, which reads the change automatically. Without it, a gateway creates the token for all gateways of
its records; that requires the scope admin. To revoke a token, use drover tokens revoke, or delete its entry
in the file. With --expires-in the token is refused after that time.

A token has either scopes, which hold in all groups, or roles in some groups: --bind submitter=/acme/**
lets its owner see and submit runs of the group /acme and of all groups below it, and nothing else. The roles
are viewer, submitter, approver, operator and admin.

A token with the scope executor may act as any executor, unless it is bound: --executor restricts it
to one id (with a * at its end, to all ids with this prefix), --pool to the tasks of one pool, --set
allows its executors to join an executor set, and --fleet makes them instances of a fleet. A relay
accepts bound tokens only.`,
		Example: "  drover tokens create --name ci --scopes read,write --file tokens.yaml\n" +
			"  drover tokens create --name acme-ci --bind 'submitter=/acme/**' --bind 'viewer=/shared/**' --expires-in 2160h\n" +
			"  drover tokens create --name host-7 --scopes executor --executor host-7 --pool linux --file tokens.yaml --out executor.token\n" +
			"  drover tokens create --name builders --scopes executor --executor 'builder-*' --pool linux --set builders --file tokens.yaml",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case lifetime < 0:
				return command.UsageError(errors.New("--expires-in must not be negative"))
			case lifetime > 0:
				entry.Expires = time.Now().Add(lifetime).UTC().Truncate(time.Second)
			}
			bindings, err := clienttokens.ParseBindings(bind)
			if err != nil {
				return err
			}
			if len(bindings) > 0 && !cmd.Flags().Changed("scopes") {
				scopes = nil
			}
			for _, s := range scopes {
				entry.Scopes = append(entry.Scopes, tokens.Scope(strings.TrimSpace(s)))
			}
			var token string
			if file == "" {
				token, err = createAtGateway(cmd, conn, entry, bindings)
			} else {
				for _, b := range bindings {
					entry.Roles = append(entry.Roles, roles.Binding{Role: roles.Role(b.Role), Groups: b.Groups})
				}
				token, err = addToken(file, entry)
			}
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
	cmd.Flags().StringArrayVar(&bind, "bind", nil, "role in groups, instead of scopes: ROLE=PATTERN[,PATTERN...], such as submitter=/acme/** (repeatable)")
	cmd.Flags().StringVar(&entry.Executor, "executor", "", "only for the executor with this id, or with a * at its end for all ids with this prefix")
	cmd.Flags().StringVar(&entry.Pool, "pool", "", "only for tasks of this pool; needs --executor")
	cmd.Flags().StringVar(&entry.Set, "set", "", "for members of this executor set; needs --executor")
	cmd.Flags().StringVar(&entry.Fleet, "fleet", "", "for instances of this fleet only; needs --executor and --pool")
	cmd.Flags().StringVar(&entry.Instance, "instance", "", "for this instance of the fleet only; needs --fleet")
	cmd.Flags().DurationVar(&lifetime, "expires-in", 0, "how long the token is valid, such as 2160h; 0 for no limit")
	cmd.Flags().StringVar(&file, "file", "", "token file to add the hash to, instead of a call of a gateway; created if it does not exist")
	cmd.Flags().StringVar(&out, "out", "", "file to write the token to (0600), instead of the standard output")
	conn.AddTo(cmd)
	_ = cmd.MarkFlagRequired("name")
	return cmd
}

// createAtGateway creates a token that is not bound to an executor.
func createAtGateway(cmd *cobra.Command, conn *session.Connection, entry tokens.Token, bindings []api.RoleBinding) (string, error) {
	if entry.Bound() {
		return "", command.UsageError(errors.New("a token that is bound to an executor needs --file: gateways create no such token"))
	}
	spec := api.TokenSpec{Name: entry.Name, Bindings: bindings, ExpiresAt: entry.Expires}
	for _, s := range entry.Scopes {
		spec.Scopes = append(spec.Scopes, api.TokenSpecScopes(s))
	}
	return clienttokens.Create(cmd, conn, spec)
}

// addToken creates a token and adds its entry to the file, which it replaces
// atomically.
func addToken(file string, entry tokens.Token) (string, error) {
	// The gateway that reads the file may have another prefix; it then logs such an entry.
	if err := tokens.CheckName(entry.Name, config.Default().Gateway.OIDC.SubjectPrefix); err != nil {
		return "", command.UsageError(err)
	}
	list, err := readTokens(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if slices.ContainsFunc(list, func(t tokens.Token) bool { return t.Name == entry.Name }) {
		return "", fmt.Errorf("the token file %s already has a token named %s; delete its entry to replace it", file, entry.Name)
	}
	token := tokens.New()
	entry.Hash = tokens.Hash(token)
	if _, err := tokens.NewList([]tokens.Token{entry}); err != nil {
		return "", command.UsageError(err)
	}
	return token, writeTokens(file, append(list, entry))
}

// deleteToken deletes the entry of a token from the file, which it replaces
// atomically.
func deleteToken(file, name string) error {
	list, err := readTokens(file)
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(slices.Clone(list), func(t tokens.Token) bool { return t.Name == name })
	if len(rest) == len(list) {
		return run.Errorf(run.CodeNotFound, "the token file %s has no token named %s", file, name)
	}
	return writeTokens(file, rest)
}

func readTokens(file string) ([]tokens.Token, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the token file: %w", err)
	}
	var list []tokens.Token
	if err := yaml.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("read the token file %s: %w", file, yamlfault.Error(data, err, list))
	}
	return list, nil
}

func writeTokens(file string, list []tokens.Token) error {
	data, err := yaml.Marshal(list)
	if err == nil {
		err = durable.WriteFile(file, data)
	}
	if err != nil {
		return fmt.Errorf("write the token file: %w", err)
	}
	return nil
}
