// Command drover contains all of Drover: the client commands, and the processes
// of a server.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // the image has no files of time zones

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/drover-run/drover/cli"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/session"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process immediately.
	context.AfterFunc(ctx, stop)
	code := command.Execute(ctx, rootCommand(systemEnv()), os.Args[1:])
	stop()
	os.Exit(int(code))
}

// rootCommand returns the command drover with all its commands.
func rootCommand(env session.Env) *cobra.Command {
	env = env.WithDefaults()
	return addPluginCommands(cli.New(env, processCommands(env)...))
}

// systemEnv returns the environment of this process for the client commands.
func systemEnv() session.Env {
	in, out := int(os.Stdin.Fd()), int(os.Stdout.Fd())
	env := session.Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		LookupEnv: os.LookupEnv, UserConfigDir: os.UserConfigDir,
		IsTerminal: func() bool { return term.IsTerminal(out) },
		TerminalSize: func() (columns, rows int) {
			columns, rows, err := term.GetSize(out)
			if err != nil {
				return 80, 24
			}
			return columns, rows
		},
		Resizes: resizes,
	}
	if term.IsTerminal(in) {
		env.MakeRaw = func() (restore func(), err error) {
			state, err := term.MakeRaw(in)
			if err != nil {
				return nil, fmt.Errorf("set the mode of the terminal: %w", err)
			}
			return func() { _ = term.Restore(in, state) }, nil
		}
	}
	return env
}
