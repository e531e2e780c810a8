package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/drover-run/drover/executor/shim"
	"github.com/drover-run/drover/executor/shim/session"
)

// serveSession runs a command of a client in the environment of the running step.
func serveSession(ctx context.Context, dir string, stdin io.Reader, stdout, stderr io.Writer) int {
	if err := session.Serve(ctx, dir, stdin, stdout); err != nil {
		_, _ = fmt.Fprintln(stderr, "drover-shim exec:", err)
		return shim.ExitFiles
	}
	return shim.ExitDone
}

// execCommand becomes the command of a session. The arguments are the process of the
// step, TERM, and the command.
func execCommand(args []string, stderr io.Writer) int {
	const fixed = 2
	if len(args) <= fixed {
		_, _ = io.WriteString(stderr, usage)
		return shim.ExitUsage
	}
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		_, _ = io.WriteString(stderr, usage)
		return shim.ExitUsage
	}
	return session.Exec(pid, args[1], args[fixed:], stderr)
}

// hold waits for a signal. The process holds the environment of a failed task.
func hold(ctx context.Context) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	<-ctx.Done()
	return shim.ExitDone
}
