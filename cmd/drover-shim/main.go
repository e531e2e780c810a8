// Command drover-shim supervises one task inside its environment. Executors
// start it; see package shim for what it does.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/drover-run/drover/executor/shim"
	"github.com/drover-run/drover/internal/version"
	"github.com/drover-run/drover/run"
)

const usage = `usage: drover-shim run  --dir DIR [--order FILE|-] [--stdout NONCE] [--host]
       drover-shim read --dir DIR [--from N] [--follow]
       drover-shim stop --dir DIR [--grace DURATION]
       drover-shim await-port --ports PORT,... [--timeout DURATION]
       drover-shim version
`

func main() {
	os.Exit(command(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func command(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		_, _ = io.WriteString(stderr, usage)
		return shim.ExitUsage
	}
	flags := flag.NewFlagSet("drover-shim "+args[0], flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("dir", "", "the task's `directory`")
	needDir := true
	var do func() int
	switch args[0] {
	case "run":
		order := flags.String("order", "-", "the order's `file`, removed when it was read; - is stdin")
		nonce := flags.String("stdout", "", "copy the frames to stdout, each behind this `word`, and linger for the acknowledgment")
		host := flags.Bool("host", false, "run on a host: a SIGTERM without a stop file is no wish of Drover")
		lockFD := flags.Int("lock-fd", 0, "an open and locked lock file, as the `number` of its descriptor")
		do = func() int {
			o := shim.Options{Dir: *dir, LockFD: *lockFD, Host: *host, Order: stdin, Log: slog.New(slog.NewTextHandler(stderr, nil))}
			if *nonce != "" {
				o.Stdout, o.Nonce, o.Linger = stdout, *nonce, true
			}
			return runTask(ctx, o, *order)
		}
	case "read":
		from := flags.Int64("from", 1, "the `number` of the first frame")
		follow := flags.Bool("follow", false, "wait for further frames until the task ends")
		do = func() int { return read(ctx, *dir, *from, *follow, stdout, stderr) }
	case "stop":
		grace := flags.Duration("grace", run.StopGrace, "the `time` between SIGTERM and SIGKILL")
		do = func() int { return stop(*dir, *grace, stderr) }
	case "await-port":
		ports := flags.String("ports", "", "TCP `ports`, separated by commas; one of them is enough")
		timeout := flags.Duration("timeout", 30*time.Second, "how `long` to wait")
		needDir = false
		do = func() int { return awaitPort(ctx, *ports, *timeout, stdout, stderr) }
	case "version":
		_, _ = fmt.Fprintln(stdout, "drover-shim", version.String())
		return shim.ExitDone
	default:
		_, _ = io.WriteString(stderr, usage)
		return shim.ExitUsage
	}
	if err := flags.Parse(args[1:]); err != nil {
		return shim.ExitUsage
	}
	if (*dir == "" && needDir) || flags.NArg() > 0 {
		_, _ = io.WriteString(stderr, usage)
		return shim.ExitUsage
	}
	return do()
}

func runTask(ctx context.Context, o shim.Options, order string) int {
	if order != "-" {
		f, err := os.Open(order) //nolint:gosec // it is for the caller to say which file has the order
		if err != nil {
			o.Log.ErrorContext(ctx, "refusing the order", "error", err)
			return shim.ExitOrder
		}
		defer func() { _ = f.Close() }()
		o.Order, o.OrderFile = f, order
	}
	return shim.Run(ctx, o)
}

func read(ctx context.Context, dir string, from int64, follow bool, stdout, stderr io.Writer) int {
	out := bufio.NewWriterSize(stdout, 64<<10)
	fail := func(code int, err error) int {
		_, _ = fmt.Fprintln(stderr, "drover-shim read:", errors.Join(err, out.Flush()))
		return code
	}
	lines := shim.ReadLines(dir, from)
	if follow {
		lines = shim.TailLines(ctx, dir, from, new(shim.Watcher))
	}
	for line, err := range lines {
		if run.CodeOf(err) == run.CodeNotFound {
			if !shim.HasJournal(dir) {
				return fail(shim.ExitNoJournal, err)
			}
			return fail(shim.ExitEnded, err)
		}
		if err == nil {
			_, err = out.Write(line)
		}
		if err == nil && follow {
			err = out.Flush()
		}
		if err != nil {
			return fail(shim.ExitFiles, err)
		}
	}
	if err := out.Flush(); err != nil {
		return fail(shim.ExitFiles, err)
	}
	return shim.ExitDone
}

func stop(dir string, grace time.Duration, stderr io.Writer) int {
	err := shim.WriteStop(dir, shim.StopWish{Grace: grace})
	if err == nil {
		_, err = shim.Wake(dir)
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "drover-shim stop:", err)
		return shim.ExitFiles
	}
	return shim.ExitDone
}
