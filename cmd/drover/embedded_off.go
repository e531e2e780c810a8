//go:build noembedded

package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/cli/command"
)

// A build with the tag noembedded has no Temporal server, and neither have its
// commands.

func devCommand() *cobra.Command { return withoutServer("dev") }

func temporalCommand() *cobra.Command { return withoutServer("temporal") }

// withoutServer returns a hidden command that fails with the reason why this
// build does not have it.
func withoutServer(name string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: "Not in this build", Hidden: true, DisableFlagParsing: true, Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return command.UsageError(errors.New(c.CommandPath() + " is not in this build, which has no embedded Temporal server"))
		},
	}
}
