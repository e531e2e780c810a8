package cli

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

// format is the value of --output.
type format string

const (
	formatTable format = "table"
	formatJSON  format = "json"
)

// String implements pflag.Value.
func (f *format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *format) Type() string { return "table|json" }

// Set implements pflag.Value.
func (f *format) Set(s string) error {
	switch format(s) {
	case formatTable, formatJSON:
		*f = format(s)
		return nil
	}
	return run.Errorf(run.CodeInvalid, "must be table or json, not %q", s)
}

// addTo adds the flag --output to a command and its subcommands.
func (f *format) addTo(cmd *cobra.Command, otherwise format) {
	*f = otherwise
	cmd.PersistentFlags().VarP(f, "output", "o", "output format")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{string(formatTable), string(formatJSON)}, cobra.ShellCompDirectiveNoFileComp))
}

// printJSON writes a document unchanged but indented.
func printJSON(w io.Writer, raw []byte) error {
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(raw), "", "  "); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	b.WriteByte('\n')
	_, err := b.WriteTo(w)
	return err
}

// printLine writes v as one line of JSON.
func printLine(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	_, err = w.Write(append(data, '\n'))
	return err
}

// table collects rows and prints them in columns.
type table struct {
	writer *tabwriter.Writer
	err    error
}

func newTable(w io.Writer, header ...string) *table {
	t := &table{writer: tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)}
	if len(header) > 0 {
		t.row(header...)
	}
	return t
}

// row adds a row. It removes line breaks and tabs from cells, and shows an empty
// cell as a dash.
func (t *table) row(cells ...string) {
	for i, cell := range cells {
		if cell = plain(cell); cell == "" {
			cell = "-"
		}
		cells[i] = cell
	}
	if _, err := fmt.Fprintln(t.writer, strings.Join(cells, "\t")); t.err == nil {
		t.err = err
	}
}

// field adds a row with a name and a value if the value is not empty.
func (t *table) field(name, value string) {
	if value != "" {
		t.row(name+":", value)
	}
}

func (t *table) flush() error {
	if err := t.writer.Flush(); t.err == nil {
		t.err = err
	}
	return t.err
}

// plain returns s on one line and without control sequences for terminals.
func plain(s string) string {
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

// clock formats a time of day; "" for the zero time.
func (e Env) clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.In(e.Location).Format(time.DateTime)
}

// ago formats the age of a time.
func (e Env) ago(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return formatDuration(max(0, e.Now().Sub(t))) + " ago"
}

// took formats a duration, up to now if to is zero.
func (e Env) took(from, to time.Time) string {
	if from.IsZero() {
		return ""
	}
	if to.IsZero() {
		to = e.Now()
	}
	return formatDuration(max(0, to.Sub(from)))
}

// formatDuration formats a duration in at most two units.
func formatDuration(d time.Duration) string {
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
