package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/executor/shim"
)

// awaitPort waits until a process listens on one of the ports, a comma-separated
// list, or if there is a count, on that number of ports.
func awaitPort(ctx context.Context, list string, count int, timeout time.Duration, stdout, stderr io.Writer) int {
	if count > 0 {
		return awaitPorts(ctx, count, timeout, stdout, stderr)
	}
	var ports []int
	for text := range strings.SplitSeq(list, ",") {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			_, _ = fmt.Fprintf(stderr, "drover-shim await-port: %q is not a port\n", text)
			return shim.ExitUsage
		}
		ports = append(ports, int(port))
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	port, err := shim.AwaitPort(ctx, ports)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "drover-shim await-port:", err)
		return shim.ExitNoPort
	}
	_, _ = fmt.Fprintln(stdout, port)
	return shim.ExitDone
}

func awaitPorts(ctx context.Context, count int, timeout time.Duration, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := shim.AwaitPorts(ctx, count); err != nil {
		_, _ = fmt.Fprintln(stderr, "drover-shim await-port:", err)
		return shim.ExitNoPort
	}
	_, _ = io.WriteString(stdout, shim.Done)
	return shim.ExitDone
}
