// Package command is what the command lines of all programs of Drover have in
// common: exit codes, errors and their hints, and the checks of arguments.
package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/internal/version"
)

// Complete finishes a root command whose subcommands were all added: it adds the
// help and completion commands and the version. Wrong numbers of arguments,
// unknown flags and unknown subcommands become usage errors for all commands.
func Complete(root *cobra.Command) {
	root.Version = version.String()
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetVersionTemplate(root.Name() + " {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return UsageError(err) })
	parents(root)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	checkArgs(root)
	nameExamples(root)
}

// nameExamples gives the examples of commands that several programs have the name
// of this one: they are written for drover.
func nameExamples(root *cobra.Command) {
	var rename func(c *cobra.Command)
	rename = func(c *cobra.Command) {
		c.Example = strings.ReplaceAll(c.Example, "drover ", root.Name()+" ")
		for _, sub := range c.Commands() {
			rename(sub)
		}
	}
	if root.Name() != "drover" {
		rename(root)
	}
}

// Execute runs the command line and returns its exit code. It prints errors to
// the root's standard error.
func Execute(ctx context.Context, root *cobra.Command, args []string) ExitCode {
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	code := exitOf(err)
	var ended *exitError
	if err != nil && !errors.As(err, &ended) {
		PrintError(root.ErrOrStderr(), command, err)
	}
	return code
}

// Parent makes c a command without an action: without arguments it shows its
// help, and an unknown subcommand is an error.
func Parent(c *cobra.Command) {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		message := fmt.Sprintf("unknown command %q", strings.TrimSpace(c.CommandPath()+" "+args[0]))
		if near := suggestions(c, args[0]); len(near) > 0 {
			message += "; did you mean " + strings.Join(near, " or ") + "?"
		}
		return UsageError(errors.New(message))
	}
}

// maxSuggestions bounds how many commands a suggestion names.
const maxSuggestions = 3

// suggestions returns what an unknown subcommand may mean: subcommands of that name
// below others, in the order of the commands with those on runs alone if there is one,
// or else subcommands with a similar name.
func suggestions(c *cobra.Command, word string) []string {
	var below []string
	for _, noun := range c.Commands() {
		for _, verb := range noun.Commands() {
			if verb.Name() != word {
				continue
			}
			if noun.Name() == "runs" {
				return []string{verb.CommandPath()}
			}
			below = append(below, verb.CommandPath())
		}
	}
	if len(below) > 0 && len(below) <= maxSuggestions {
		return below
	}
	c.SuggestionsMinimumDistance = 2
	return c.SuggestionsFor(word)
}

// parents calls Parent for c and its subcommands that only have subcommands.
func parents(c *cobra.Command) {
	if c.HasSubCommands() && !c.Runnable() {
		Parent(c)
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
