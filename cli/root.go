package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/internal/version"
	"github.com/drover-run/drover/run"
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
func New(env Env, extra ...*cobra.Command) *cobra.Command {
	env = env.withDefaults()
	root := &cobra.Command{
		Use:   "drover",
		Short: "Run graphs of tasks on hosts and in containers, durably",
		Long: `Drover runs runs: graphs of tasks that fan out and back in, on hosts or in containers. Each run is a Temporal workflow,
so nothing is lost when a process dies.

  drover dev                              all of Drover in one process, with an embedded Temporal server
  drover run examples/hello.yaml --follow
  drover ps                               the newest runs; drover status ID and drover logs ID TASK show one

Resources are nouns with the verbs list, get, apply -f FILE (create or update from a file), set (change fields), delete, pause,
resume, drain and trigger, as far as they have a meaning.

Client commands use the gateway of drover dev by default. Select another one with --server and --token, or with the variables
DROVER_SERVER and DROVER_TOKEN.

Exit codes: 0 done, 1 the run failed, 2 wrong usage or an invalid specification, 3 the run was stopped or cancelled,
4 the gateway cannot be reached or does not allow it, 5 anything else.`,
		Version:       version.String(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	root.SetVersionTemplate("drover {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return UsageError(err) })
	root.AddGroup(&cobra.Group{ID: GroupClient, Title: "Client commands:"})
	if slices.ContainsFunc(extra, func(c *cobra.Command) bool { return c.GroupID == GroupProcess }) {
		root.AddGroup(&cobra.Group{ID: GroupProcess, Title: "Commands that run Drover:"})
	}
	parent(root)
	root.AddCommand(Commands(env)...)
	for _, c := range extra {
		parents(c)
	}
	root.AddCommand(extra...)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	checkArgs(root)
	return root
}

// Commands returns the commands of a client.
func Commands(env Env) []*cobra.Command {
	env = env.withDefaults()
	all := []*cobra.Command{
		initCommand(env), runCommand(env), validateCommand(env), runsCommand(env), artifactsCommand(env), executorsCommand(env), poolsCommand(env), eventsCommand(env),
		changeGroupsCommand(env), groupsCommand(env), webhooksCommand(env), schedulesCommand(env), fleetsCommand(env), retentionCommand(env),
		psCommand(env), statusCommand(env), logsShortcut(env),
	}
	for _, c := range all {
		c.GroupID = GroupClient
	}
	return append(all, versionCommand(env))
}

// Execute runs the command line and returns its exit code. It prints errors to
// the root's standard error.
func Execute(ctx context.Context, root *cobra.Command, args []string) ExitCode {
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	code := exitOf(err)
	var ended *exitError
	if err != nil && (!errors.As(err, &ended) || ended.err != nil) {
		printError(root.ErrOrStderr(), command, err)
	}
	return code
}

// parent makes c a command without an action: without arguments it shows its
// help, and an unknown subcommand is an error.
func parent(c *cobra.Command) {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		message := fmt.Sprintf("unknown command %q", strings.TrimSpace(c.CommandPath()+" "+args[0]))
		c.SuggestionsMinimumDistance = 2
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			message += "; did you mean " + strings.Join(near, " or ") + "?"
		}
		return UsageError(errors.New(message))
	}
}

// parents calls parent for c and its subcommands that only have subcommands.
func parents(c *cobra.Command) {
	if c.HasSubCommands() && !c.Runnable() {
		parent(c)
	}
	for _, sub := range c.Commands() {
		parents(sub)
	}
}

// checkArgs makes wrong numbers of arguments usage errors, for all subcommands.
func checkArgs(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return UsageError(fmt.Errorf("%w; usage: %s", err, c.UseLine()))
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		checkArgs(sub)
	}
}

// invalid returns a usage error.
func invalid(format string, args ...any) error {
	return UsageError(run.Errorf(run.CodeInvalid, format, args...))
}
