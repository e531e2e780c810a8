package shim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// portPoll is the poll interval of AwaitPort. The system has no notifications.
const portPoll = 20 * time.Millisecond

// stateListen is the state of a listening socket in /proc/net/tcp.
const stateListen = "0A"

// AwaitPort waits until a process listens on one of the TCP ports in this network
// namespace, and returns that port. It reads the system's tables and opens no
// connection. The error is that of the context, or of reading the tables.
func AwaitPort(ctx context.Context, ports []int) (int, error) {
	var found int
	err := awaitListening(ctx, func(listening []int) bool {
		i := slices.IndexFunc(ports, func(port int) bool { return slices.Contains(listening, port) })
		if i >= 0 {
			found = ports[i]
		}
		return i >= 0
	})
	return found, err
}

// AwaitPorts waits as AwaitPort does, until processes listen on count ports.
func AwaitPorts(ctx context.Context, count int) error {
	return awaitListening(ctx, func(listening []int) bool {
		slices.Sort(listening)
		return len(slices.Compact(listening)) >= count
	})
}

// awaitListening waits until enough returns true for the listening ports.
func awaitListening(ctx context.Context, enough func(listening []int) bool) error {
	ticker := time.NewTicker(portPoll)
	defer ticker.Stop()
	for {
		var all []int
		for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			listening, err := listeningPorts(table)
			if err != nil {
				return err
			}
			all = append(all, listening...)
		}
		if enough(all) {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// listeningPorts reads a table of sockets. A missing IPv6 table counts as empty.
func listeningPorts(table string) ([]int, error) {
	f, err := os.Open(table)
	if errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(table, "6") {
		return nil, nil // no IPv6 here
	}
	if err != nil {
		return nil, fmt.Errorf("read the sockets: %w", err)
	}
	defer func() { _ = f.Close() }()
	var ports []int
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// "sl local_address rem_address st ...", an address being hex:hex.
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || fields[3] != stateListen {
			continue
		}
		_, text, _ := strings.Cut(fields[1], ":")
		if port, err := strconv.ParseUint(text, 16, 16); err == nil {
			ports = append(ports, int(port))
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the sockets: %w", err)
	}
	return ports, nil
}
