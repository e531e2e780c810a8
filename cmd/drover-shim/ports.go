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

// awaitPort waits until one of the ports, a list with commas, is listened on.
func awaitPort(ctx context.Context, list string, timeout time.Duration, stdout, stderr io.Writer) int {
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
