// Package render prints what commands show: tables, JSON and durations.
package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/run"
)

// Format is the value of --output.
type Format string

// The formats.
const (
	AsTable Format = "table"
	AsJSON  Format = "json"
)

// String implements pflag.Value.
func (f *Format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *Format) Type() string { return "table|json" }

// Set implements pflag.Value.
func (f *Format) Set(s string) error {
	switch Format(s) {
	case AsTable, AsJSON:
		*f = Format(s)
		return nil
	}
	return run.Errorf(run.CodeInvalid, "must be table or json, not %q", s)
}

// AddTo adds the flag --output to a command and its subcommands.
func (f *Format) AddTo(cmd *cobra.Command, otherwise Format) {
	*f = otherwise
	cmd.PersistentFlags().VarP(f, "output", "o", "output format")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{string(AsTable), string(AsJSON)}, cobra.ShellCompDirectiveNoFileComp))
}

// JSON writes a document unchanged but indented.
func JSON(w io.Writer, raw []byte) error {
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(raw), "", "  "); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	b.WriteByte('\n')
	_, err := b.WriteTo(w)
	return err
}

// Line writes v as one line of JSON.
func Line(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	_, err = w.Write(append(data, '\n'))
	return err
}

// Table collects rows and prints them in columns.
type Table struct {
	writer *tabwriter.Writer
	err    error
}

// NewTable returns a table with a header.
func NewTable(w io.Writer, header ...string) *Table {
	t := &Table{writer: tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)}
	if len(header) > 0 {
		t.Row(header...)
	}
	return t
}

// Row adds a row. It removes line breaks and tabs from cells, and shows an empty
// cell as a dash.
func (t *Table) Row(cells ...string) {
	for i, cell := range cells {
		if cell = Plain(cell); cell == "" {
			cell = "-"
		}
		cells[i] = cell
	}
	if _, err := fmt.Fprintln(t.writer, strings.Join(cells, "\t")); t.err == nil {
		t.err = err
	}
}

// Field adds a row with a name and a value if the value is not empty.
func (t *Table) Field(name, value string) {
	if value != "" {
		t.Row(name+":", value)
	}
}

// Flush prints the rows, and returns the first error.
func (t *Table) Flush() error {
	if err := t.writer.Flush(); t.err == nil {
		t.err = err
	}
	return t.err
}

// Plain returns s on one line and without control sequences for terminals.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < ' ' || r >= 0x7f && r < 0xa0:
			return -1
		}
		return r
	}, s)
}

// Duration formats a duration in at most two units.
func Duration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < day:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(d/day), int(d%day/time.Hour))
}
