package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/drover-run/drover/executor/shim"
	"github.com/drover-run/drover/run"
)

// hand passes an order, one line of JSON from stdin, to the waiting shim of the
// directory. It prints a line, "begun" or "exists", and then follows the journal.
func hand(ctx context.Context, f followOptions, timeout time.Duration, stdin io.Reader, stdout, stderr io.Writer) int {
	fail := func(code int, err error) int {
		_, _ = fmt.Fprintln(stderr, "drover-shim hand:", err)
		return code
	}
	source := bufio.NewReader(stdin)
	order, err := source.ReadBytes('\n')
	if err != nil { // also if the line was truncated
		return fail(shim.ExitOrder, fmt.Errorf("read the order: %w", err))
	}
	word := "begun"
	waiting, cancel := context.WithTimeout(ctx, timeout)
	err = shim.Handover(waiting, f.dir, order)
	cancel()
	switch {
	case errors.Is(err, shim.ErrBegun):
		word = "exists"
	case errors.Is(err, shim.ErrNoShim):
		return fail(shim.ExitNoShim, err)
	case run.CodeOf(err) == run.CodeInvalid:
		return fail(shim.ExitOrder, err)
	case err != nil:
		return fail(shim.ExitFiles, err)
	}
	if _, err := fmt.Fprintln(stdout, word); err != nil {
		return fail(shim.ExitFiles, err)
	}
	return followJournal(ctx, f, source, stdout, stderr)
}

// shimFile is the file name of the installed shim.
const shimFile = "drover-shim"

func install(dir string, stderr io.Writer) int {
	if err := shim.Install(dir, shimFile); err != nil {
		_, _ = fmt.Fprintln(stderr, "drover-shim install:", err)
		return shim.ExitFiles
	}
	return shim.ExitDone
}

// inheritedEnvironment returns the environment and the working directory of this
// process.
func inheritedEnvironment() (env map[string]string, dir string) {
	env = make(map[string]string)
	for _, entry := range os.Environ() {
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
			env[name] = value
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	return env, dir
}
