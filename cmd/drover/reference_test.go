package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// reference renders the page of all commands and flags from the commands.
func reference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(`# The command line

<!-- Generated from the commands: edit their descriptions, and then run "make reference". -->

This page lists all commands with their flags; ` + "`--help`" + ` of a command shows the same.
Every command has the flag ` + "`--help`" + `, which the tables leave out.
[errors.md](errors.md#exit-codes) lists the exit codes, [configuration.md](configuration.md) the settings of the processes and the variables of the client commands.

`)
	all := visible(root)
	for _, group := range append(root.Groups(), &cobra.Group{Title: "Other commands:"}) {
		fmt.Fprintf(&b, "%s\n\n", group.Title)
		for _, c := range all[1:] {
			if c.Parent() == root && c.GroupID == group.ID {
				fmt.Fprintf(&b, "- [`%s`](#%s): %s\n", c.CommandPath(), anchor(c), inline(c.Short))
			}
		}
		b.WriteString("\n")
	}
	for _, c := range all {
		writeCommand(&b, c)
	}
	return strings.ReplaceAll(b.String(), "\n\n\n", "\n\n")
}

// visible returns a command and all commands below it that the help shows, in
// the order of their names.
func visible(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	below := slices.Clone(c.Commands())
	slices.SortFunc(below, func(a, b *cobra.Command) int { return strings.Compare(a.Name(), b.Name()) })
	for _, sub := range below {
		if !sub.Hidden && sub.Name() != "help" {
			all = append(all, visible(sub)...)
		}
	}
	return all
}

func writeCommand(b *strings.Builder, c *cobra.Command) {
	c.InitDefaultHelpFlag()
	c.InitDefaultVersionFlag()
	level := "##"
	if depth := strings.Count(c.CommandPath(), " "); depth > 1 {
		level = "###"
	}
	fmt.Fprintf(b, "\n%s %s\n\n", level, c.CommandPath())
	ours := !strings.HasPrefix(c.CommandPath(), "drover completion ") // the long texts of cobra are about each shell
	if c.Long != "" && ours {
		writeText(b, c.Long)
	} else {
		fmt.Fprintf(b, "%s.\n", inline(c.Short))
	}
	usage := c.UseLine()
	if c.HasAvailableSubCommands() {
		usage = c.CommandPath() + " COMMAND"
	}
	fmt.Fprintf(b, "\n```text\n%s\n", usage)
	for _, alias := range c.Aliases {
		fmt.Fprintf(b, "%s\n", strings.Replace(c.UseLine(), " "+c.Name(), " "+alias, 1))
	}
	b.WriteString("```\n")
	if c.Example != "" {
		b.WriteString("\n```sh\n")
		for line := range strings.Lines(strings.Trim(c.Example, "\n") + "\n") {
			b.WriteString(strings.TrimPrefix(line, "  "))
		}
		b.WriteString("```\n")
	}
	if subs := visible(c)[1:]; len(subs) > 0 && c.HasParent() {
		b.WriteString("\n")
		for _, sub := range subs {
			if sub.Parent() == c {
				fmt.Fprintf(b, "- [`%s`](#%s): %s\n", sub.CommandPath(), anchor(sub), inline(sub.Short))
			}
		}
	}
	writeFlags(b, c)
}

// writeFlags writes the flags of a command, and the names of those that it has
// from the commands above it.
func writeFlags(b *strings.Builder, c *cobra.Command) {
	var rows []string
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" && f.ShorthandDeprecated == "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if kind != "" {
			name += " " + kind
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |\n", strings.ReplaceAll(name, "|", `\|`), defaultOf(f), inline(usage)))
	})
	if len(rows) > 0 {
		b.WriteString("\n| flag | default | meaning |\n|---|---|---|\n" + strings.Join(rows, ""))
	}
	for above := c.Parent(); above != nil; above = above.Parent() {
		var names []string
		above.PersistentFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" {
				names = append(names, "`--"+f.Name+"`")
			}
		})
		if len(names) > 0 {
			fmt.Fprintf(b, "\nAlso the flags of [%s](#%s): %s.\n", above.CommandPath(), anchor(above), strings.Join(names, ", "))
		}
	}
}

// defaultOf returns the default of a flag, "" for the zero value of its type.
func defaultOf(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "false", "0", "0s", "[]":
		return ""
	}
	return "`" + f.DefValue + "`"
}

// anchor returns the link to the heading of a command.
func anchor(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// writeText writes a description, with indented lines as code.
func writeText(b *strings.Builder, text string) {
	code := false
	for line := range strings.Lines(strings.TrimSpace(text) + "\n") {
		if indented := strings.HasPrefix(line, "  "); indented != code && strings.TrimSpace(line) != "" {
			b.WriteString(map[bool]string{true: "```text\n", false: "```\n"}[indented])
			code = indented
		}
		if code && strings.TrimSpace(line) == "" {
			b.WriteString("```\n")
			code = false
		}
		if code {
			b.WriteString(strings.TrimPrefix(line, "  "))
			continue
		}
		b.WriteString(inline(line))
	}
	if code {
		b.WriteString("```\n")
	}
}

// inline escapes the characters of a text that Markdown would interpret.
func inline(text string) string {
	return strings.NewReplacer("<", `\<`, "*", `\*`, "|", `\|`, "[", `\[`, "]", `\]`).Replace(text)
}
