package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/cli/session"
)

// psCommand is runs list at the top level.
func psCommand(env session.Env) *cobra.Command { return shortcut(env, "ps", listRunsCommand) }

// statusCommand is runs get at the top level.
func statusCommand(env session.Env) *cobra.Command { return shortcut(env, "status", getRunCommand) }

// logsShortcut is runs logs at the top level.
func logsShortcut(env session.Env) *cobra.Command { return shortcut(env, "logs", logsCommand) }

// shortcut returns a command on runs at the top level, under a name of its own.
func shortcut(env session.Env, name string, build func(*runsFlags) *cobra.Command) *cobra.Command {
	f := &runsFlags{env: env, conn: session.New(env)}
	c := build(f)
	long := "runs " + c.Name()
	c.Example = strings.ReplaceAll(c.Example, "drover "+long, "drover "+name)
	c.Short += " (short for " + long + ")"
	c.Use = strings.Replace(c.Use, c.Name(), name, 1)
	f.conn.AddTo(c)
	f.output.AddTo(c, render.AsTable)
	return c
}
