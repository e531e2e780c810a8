// Command drover-shim supervises one task inside its environment. Executors start
// it; see package shim.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/drover-run/drover/executor/shim"
	"github.com/drover-run/drover/executor/shim/checkout"
	"github.com/drover-run/drover/executor/shim/journal"
	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/executor/shim/stepenv"
	"github.com/drover-run/drover/internal/version"
	"github.com/drover-run/drover/run"
)

const usage = `usage: drover-shim run  --dir DIR [--order FILE|-|socket] [--stdout NONCE] [--host] [--strict] [--inherit]
       drover-shim hand --dir DIR [--timeout DURATION] [--pulse DURATION]
       drover-shim read --dir DIR [--from N] [--follow [--pulse DURATION] | --verify]
       drover-shim stop --dir DIR [--grace DURATION] [--abort]
       drover-shim await-port --ports PORT,...|--count N [--timeout DURATION]
       drover-shim install --dir DIR
       drover-shim unpack --dir DIR
       drover-shim pack --path PATH
       drover-shim connect --dir DIR
       drover-shim exec --dir DIR
       drover-shim helper --dir DIR --name NAME [--inherit]
       drover-shim version
`

// orderSocket as the order's file means that the order comes from a socket.
const orderSocket = "socket"

func main() {
	os.Exit(command(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func command(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		_, _ = io.WriteString(stderr, usage)
		return shim.ExitUsage
	}
	if args[0] == "exec-command" { // used by drover-shim exec itself
		return execCommand(args[1:], stderr)
	}
	if args[0] == stepenv.CheckoutCommand { // used by the shim itself
		return checkout.Main(ctx, stdin, stdout, stderr)
	}
	if args[0] == checkout.StoreCommand { // used by executors
		return checkout.MainStore(ctx, stdin, stdout, stderr)
	}
	if args[0] == "hold" { // used by the shim itself
		return hold(ctx)
	}
	flags := flag.NewFlagSet("drover-shim "+args[0], flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("dir", "", "the task's `directory`")
	needDir := true
	var do func() int
	switch args[0] {
	case "run":
		order := flags.String("order", "-", "the order's `file`, removed after it was read; - is stdin; socket is a socket in DIR, for drover-shim hand")
		nonce := flags.String("stdout", "", "copy the frames to stdout, each after this `word`, and wait for the acknowledgment")
		host := flags.Bool("host", false, "run on a host: a SIGTERM without a stop file does not come from Drover")
		strict := flags.Bool("strict", false, "a SIGTERM without a stop file does not come from Drover")
		inherit := flags.Bool("inherit", false, "the steps get this process's environment and working directory; those of the order take precedence")
		lockFD := flags.Int("lock-fd", 0, "an open and locked lock file, as the `number` of its descriptor")
		do = func() int {
			o := shim.Options{Dir: *dir, LockFD: *lockFD, Host: *host, Strict: *strict, Order: stdin, Log: slog.New(slog.NewTextHandler(stderr, nil))}
			if *inherit {
				o.Environment, o.WorkingDir = inheritedEnvironment()
			}
			if *nonce != "" {
				o.Stdout, o.Nonce, o.Linger = stdout, *nonce, true
			}
			return runTask(ctx, o, *order)
		}
	case "read":
		from := flags.Int64("from", 1, "the `number` of the first frame")
		follow := flags.Bool("follow", false, "wait for further frames until the task ends")
		keepalive := flags.Duration("pulse", 0, "print an empty line after a silence of this `duration`, and end with stdin; 0 does neither")
		check := flags.Bool("verify", false, "print no frames, but check that all can be read")
		do = func() int {
			if *check {
				return verify(*dir, *from, stdout, stderr)
			}
			if !*follow {
				return read(*dir, *from, stdout, stderr)
			}
			if !journal.Exists(*dir) { // a shim without an order may wait indefinitely
				_, _ = fmt.Fprintln(stderr, "drover-shim read: there is no journal")
				return shim.ExitNoJournal
			}
			return followJournal(ctx, followOptions{dir: *dir, from: *from, keepalive: *keepalive}, stdin, stdout, stderr)
		}
	case "hand":
		timeout := flags.Duration("timeout", 10*time.Second, "the `duration` to wait for a shim that accepts the order")
		keepalive := flags.Duration("pulse", 0, "as with read")
		do = func() int {
			return hand(ctx, followOptions{dir: *dir, from: 1, keepalive: *keepalive}, *timeout, stdin, stdout, stderr)
		}
	case "install":
		do = func() int { return install(*dir, stderr) }
	case "unpack":
		do = func() int { return unpack(ctx, *dir, stdin, stdout, stderr) }
	case "pack":
		path := flags.String("path", "", "the `file` or directory to print as a tar stream")
		needDir = false
		do = func() int { return pack(ctx, *path, stdout, stderr) }
	case "connect":
		do = func() int { return connect(ctx, *dir, stdin, stdout, stderr) }
	case "exec":
		do = func() int { return serveSession(ctx, *dir, stdin, stdout, stderr) }
	case "helper":
		name := flags.String("name", "", "the `name` of the helper container")
		inherit := flags.Bool("inherit", false, "as with run")
		do = func() int { return serveHelper(ctx, *dir, *name, *inherit, stderr) }
	case "file-helper": // used by the shim itself
		return shim.FileHelper(ctx, stdin, stdout, stderr)
	case "stop":
		grace := flags.Duration("grace", run.StopGrace, "the `time` between SIGTERM and SIGKILL")
		abort := flags.Bool("abort", false, "run no cleanup steps")
		do = func() int { return stop(*dir, shim.StopRequest{Grace: *grace, Abort: *abort}, stdout, stderr) }
	case "await-port":
		ports := flags.String("ports", "", "TCP `ports`, separated by commas; one of them is enough")
		count := flags.Int("count", 0, "the `number` of ports to wait for instead, any of them")
		timeout := flags.Duration("timeout", 30*time.Second, "the `duration` to wait")
		needDir = false
		do = func() int { return awaitPort(ctx, *ports, *count, *timeout, stdout, stderr) }
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
	switch order {
	case "-":
	case orderSocket:
		o.Order = nil
	default:
		f, err := os.Open(order) //nolint:gosec // the caller names the file of the order
		if err != nil {
			o.Log.ErrorContext(ctx, "shim refuses the order", "error", err)
			return shim.ExitOrder
		}
		defer func() { _ = f.Close() }()
		o.Order, o.OrderFile = f, order
	}
	return shim.Run(ctx, o)
}

func stop(dir string, request shim.StopRequest, stdout, stderr io.Writer) int {
	err := shim.WriteStop(dir, request)
	if err == nil {
		_, err = process.Wake(dir)
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "drover-shim stop:", err)
		return shim.ExitFiles
	}
	_, _ = io.WriteString(stdout, shim.Done)
	return shim.ExitDone
}

// connect connects stdin and stdout to a waiting step.
func connect(ctx context.Context, dir string, stdin io.Reader, stdout, stderr io.Writer) int {
	if err := shim.Connect(ctx, dir, stdin, stdout); err != nil {
		_, _ = fmt.Fprintln(stderr, "drover-shim connect:", err)
		return shim.ExitNoShim
	}
	return shim.ExitDone
}
