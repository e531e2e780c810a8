package command

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/run"
)

// PrintError prints an error of a command, with a hint. An error with a method
// Hint has its own.
func PrintError(w io.Writer, command *cobra.Command, err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			PrintError(w, command, err)
		}
		return
	}
	if faulty, ok := errors.AsType[*faultyFileError](err); ok {
		faulty.writeFaults(w)
		return
	}
	_, _ = fmt.Fprintf(w, "drover: %s\n", err)
	if coded, ok := errors.AsType[*run.Error](err); ok {
		for _, f := range coded.Faults {
			if !strings.Contains(err.Error(), f.Detail) { // the message has the only fault already
				_, _ = fmt.Fprintf(w, "  %s\n", faultText(f))
			}
		}
	}
	if hint := hintFor(command, err); hint != "" {
		_, _ = fmt.Fprintln(w, hint)
	}
}

func hintFor(command *cobra.Command, err error) string {
	var usage *usageError
	var hinted interface {
		error
		Hint() string
	}
	switch {
	case errors.As(err, &hinted):
		return hinted.Hint()
	case errors.As(err, &usage) && command != nil:
		return fmt.Sprintf("See %s --help.", command.CommandPath())
	}
	switch run.CodeOf(err) { //nolint:exhaustive // the other errors need no hint
	case run.CodeUnauthenticated:
		return "Pass a token with --token or DROVER_TOKEN; drover dev writes one to DATA-DIR/token."
	case run.CodeForbidden, run.CodeTokenExpired, run.CodeTokenRevoked:
		return "Pass another token with --token or DROVER_TOKEN."
	}
	return ""
}

// faultText formats a fault without its line.
func faultText(f run.Fault) string {
	if f.Path == "" {
		return f.Detail
	}
	return f.Path + ": " + f.Detail
}

// FaultyFile returns the error of an invalid specification in a file. It is
// printed with one line for each fault.
func FaultyFile(name string, err *run.Error) error {
	return &faultyFileError{name, "Set inputs with --input NAME=VALUE; drover run FILE --help-inputs lists them.", err}
}

// FaultyRestart is FaultyFile for the specification of a run that is restarted.
func FaultyRestart(id string, err *run.Error) error {
	return &faultyFileError{"run " + id, fmt.Sprintf("Set inputs with --input NAME=VALUE; drover runs spec %s shows them.", id), err}
}

type faultyFileError struct {
	name  string
	about string // how to set inputs
	err   *run.Error
}

// Error implements error.
func (e *faultyFileError) Error() string { return e.name + ": " + e.err.Error() }

// Unwrap returns the cause.
func (e *faultyFileError) Unwrap() error { return e.err }

// writeFaults writes one line for each fault, in the form of compiler errors.
func (e *faultyFileError) writeFaults(w io.Writer) {
	if len(e.err.Faults) == 0 {
		_, _ = fmt.Fprintf(w, "%s: %s\n", e.name, e.err.Error())
		return
	}
	for _, f := range e.err.Faults {
		if strings.HasPrefix(f.Path, "--") { // of a flag, and not of the file
			_, _ = fmt.Fprintln(w, faultText(f))
			continue
		}
		place := e.name
		if f.Line > 0 {
			place += ":" + strconv.Itoa(f.Line)
		}
		_, _ = fmt.Fprintf(w, "%s: %s\n", place, faultText(f))
	}
	if slices.ContainsFunc(e.err.Faults, func(f run.Fault) bool {
		return strings.HasPrefix(f.Path, "input_values") || strings.HasPrefix(f.Path, "--input ")
	}) {
		_, _ = fmt.Fprintln(w, e.about)
	}
}
