package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/cli/approvals"
	"github.com/drover-run/drover/cli/audit"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/contexts"
	"github.com/drover-run/drover/cli/render"
	"github.com/drover-run/drover/cli/session"
)

// Groups of commands in the help.
const (
	// GroupClient is for commands that use a gateway.
	GroupClient = "client"
	// GroupProcess is for commands that run a part of Drover.
	GroupProcess = "process"
)

// New returns the root command with the client commands and the extra ones. The
// help lists those of GroupProcess separately. Wrong numbers of arguments,
// unknown flags and unknown subcommands are usage errors for all commands.
func New(env session.Env, extra ...*cobra.Command) *cobra.Command {
	env = env.WithDefaults()
	root := &cobra.Command{
		Use:   "drover",
		Short: "Run graphs of tasks on hosts and in containers, durably",
		Long: `Drover runs graphs of tasks that fan out and back in, on hosts or in containers. Each run is a Temporal workflow,
so nothing is lost when a process dies.

  drover dev                              all of Drover in one process, with an embedded Temporal server
  drover run examples/hello.yaml --follow
  drover ps                               the newest runs; drover status ID and drover logs ID TASK show one;
                                          the ID "last" is the run that you submitted last

Resources are nouns with the verbs list, get, apply -f FILE (create or update from a file), set (change fields), delete, pause,
resume, drain and trigger, as far as they have a meaning.

Client commands use the gateway of drover dev by default. Select another one with drover login and drover context use, with
--server and --token-file, or with the variables DROVER_SERVER and DROVER_TOKEN.

Exit codes: 0 done, 1 the run failed, 2 wrong usage or an invalid specification, 3 the run was stopped or cancelled,
4 the gateway cannot be reached or does not allow it, 5 anything else.`,
	}
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	root.AddGroup(&cobra.Group{ID: GroupClient, Title: "Client commands:"})
	if slices.ContainsFunc(extra, func(c *cobra.Command) bool { return c.GroupID == GroupProcess }) {
		root.AddGroup(&cobra.Group{ID: GroupProcess, Title: "Commands that run Drover:"})
	}
	root.AddCommand(Commands(env)...)
	root.AddCommand(extra...)
	command.Complete(root)
	return root
}

// Commands returns the commands of a client.
func Commands(env session.Env) []*cobra.Command {
	env = env.WithDefaults()
	all := []*cobra.Command{
		initCommand(env), runCommand(env), validateCommand(env), runsCommand(env), approvals.Command(env), artifactsCommand(env), executorsCommand(env), poolsCommand(env), eventsCommand(env),
		changeGroupsCommand(env), groupsCommand(env), webhooksCommand(env), schedulesCommand(env), fleetsCommand(env), retentionCommand(env), rolesCommand(env), audit.Command(env),
		psCommand(env), statusCommand(env), logsShortcut(env), contexts.Command(env), contexts.LoginCommand(env),
	}
	for _, c := range all {
		c.GroupID = GroupClient
	}
	return append(all, command.Version())
}

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
	f.conn.AcceptLast(c)
	f.output.AddTo(c, render.AsTable)
	return c
}
