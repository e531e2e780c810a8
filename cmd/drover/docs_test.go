package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/internal/testenv/pages"
)

var update = flag.Bool("update", false, "write docs/cli.md")

func allCommands() *cobra.Command {
	return rootCommand(session.Env{})
}

// TestPage_commands compares the page of all commands and flags with the
// commands, which it is generated from.
func TestPage_commands(t *testing.T) {
	t.Parallel()
	const page = "cli.md"
	want := reference(allCommands())
	if *update {
		require.NoError(t, os.WriteFile(pages.Path("docs/"+page), []byte(want), 0o644))
		return
	}
	diff := cmp.Diff(strings.Split(pages.Read(t, page), "\n"), strings.Split(want, "\n"))
	require.Empty(t, diff, "docs/%s is not what the commands say (+); to write it again: make reference", page)
}

// TestCommands_calendar builds the commands on two days, and compares what the page and the
// help say.
func TestCommands_calendar(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		texts := func() string {
			root := allCommands()
			text := reference(root)
			for _, c := range visible(root) {
				text += c.Long + c.UsageString()
			}
			return text
		}
		before := texts()
		<-time.After(100*24*time.Hour + 13*time.Hour + time.Minute) //nolint:forbidigo // virtual time
		require.Empty(t, cmp.Diff(strings.Split(before, "\n"), strings.Split(texts(), "\n")), "the help depends on the clock")
	})
}

// TestExamples_exist checks that the examples of the help name commands and
// flags that exist.
func TestExamples_exist(t *testing.T) {
	t.Parallel()
	root := allCommands()
	for _, c := range visible(root) {
		for line := range strings.Lines(c.Example) {
			requireCommands(t, root, "the help of "+c.CommandPath(), line)
		}
	}
}

// TestPages_name_commands checks that the pages name commands and flags that
// exist, in blocks of code and between backquotes.
func TestPages_name_commands(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(pages.Path("docs/*.md"))
	require.NoError(t, err)
	root := allCommands()
	for _, file := range append(files, pages.Path("README.md")) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		code := false
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
				continue
			}
			of := filepath.Base(file)
			if code {
				requireCommands(t, root, of, strings.TrimPrefix(strings.TrimSpace(line), "$ "))
				continue
			}
			for _, quoted := range pages.Quoted(line) {
				requireCommands(t, root, of, quoted)
			}
		}
	}
}

// TestPage_glossary checks that the glossary has an entry for each kind of
// resource that can be listed, and that its entries of phases, results, drivers
// and scopes name the values that exist.
func TestPage_glossary(t *testing.T) {
	t.Parallel()
	const page = "glossary.md"
	entries := map[string]string{}
	heading := regexp.MustCompile(`^- (\*\*[^*]+\*\*(, or )?)+:`)
	for line := range strings.Lines(pages.Read(t, page)) {
		terms := heading.FindString(line)
		for _, term := range regexp.MustCompile(`\*\*([^*]+)\*\*`).FindAllStringSubmatch(terms, -1) {
			entries[strings.ReplaceAll(strings.ToLower(term[1]), " ", "")] = line
		}
	}
	for _, c := range visible(allCommands()) {
		if c.Name() == "list" {
			kind := strings.TrimSuffix(c.Parent().Name(), "s")
			require.Contains(t, entries, kind, "docs/%s has no entry for what %q lists", page, c.CommandPath())
		}
	}
	drivers := func(name, _ string) bool { return strings.HasPrefix(name, "Driver") }
	pages.RequireSame(t, page, pages.OfType(t, "run/status.go", "Phase"), pages.Quoted(entries["phase"]))
	pages.RequireSame(t, page, pages.OfType(t, "run/status.go", "Result"), pages.Quoted(entries["result"]))
	pages.RequireSame(t, page, pages.OfType(t, "internal/tokens/scope.go", "Scope"), pages.Quoted(entries["scope"]))
	pages.RequireSame(t, page, pages.Constants(t, "run/pool.go", drivers), pages.Quoted(entries["driver"]))
}

// requireCommands checks the commands of a line of a shell.
func requireCommands(t *testing.T, root *cobra.Command, of, line string) {
	t.Helper()
	line, _, _ = strings.Cut(line, " #")
	for command := range strings.SplitSeq(line, "|") {
		command = strings.TrimPrefix(strings.TrimSpace(command), "bin/")
		if args, ok := strings.CutPrefix(command, "drover "); ok {
			requireCommand(t, root, fmt.Sprintf("%s: %q", of, command), strings.Fields(args))
		}
	}
}

func requireCommand(t *testing.T, root *cobra.Command, of string, args []string) {
	t.Helper()
	command, rest, err := root.Find(args)
	require.NoError(t, err, of)
	if command.HasAvailableSubCommands() && len(rest) > 0 {
		require.Regexp(t, `^(-|[A-Z.…]|help$)`, rest[0], "%s: there is no command %q", of, rest[0])
	}
	command.InitDefaultHelpFlag()
	command.InitDefaultVersionFlag()
	for _, word := range rest {
		if len(word) == 2 && word[0] == '-' && word[1] != '-' {
			short := word[1:]
			require.True(t, command.Flags().ShorthandLookup(short) != nil || command.InheritedFlags().ShorthandLookup(short) != nil, "%s: there is no flag -%s", of, short)
		}
		if long, ok := strings.CutPrefix(word, "--"); ok && long != "" {
			long, _, _ = strings.Cut(long, "=")
			require.True(t, command.Flags().Lookup(long) != nil || command.InheritedFlags().Lookup(long) != nil, "%s: there is no flag --%s", of, long)
		}
	}
}
