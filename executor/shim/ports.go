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

// portLook is how often AwaitPort looks. The system does not tell.
const portLook = 20 * time.Millisecond

// stateListen is the state of a listening socket in /proc/net/tcp.
const stateListen = "0A"

// AwaitPort waits until something listens on one of the TCP ports in this
// network namespace, and returns that port. It looks at the system's tables
// and connects to nothing. The error is that of the context, or of reading the
// tables.
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

// AwaitPorts waits as AwaitPort does, until something listens on so many
// ports, whichever they are.
func AwaitPorts(ctx context.Context, count int) error {
	return awaitListening(ctx, func(listening []int) bool {
		slices.Sort(listening)
		return len(slices.Compact(listening)) >= count
	})
}

// awaitListening waits until the ports that are listened on are enough.
func awaitListening(ctx context.Context, enough func(listening []int) bool) error {
	ticker := time.NewTicker(portLook)
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

// listeningPorts reads a table of sockets; one that the system does not have
// is empty.
func listeningPorts(table string) ([]int, error) {
	f, err := os.Open(table)
	if errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(table, "6") {
		return nil, nil // no IPv6 here
	}
	if err != nil {
		return nil, fmt.Errorf("reading the sockets: %w", err)
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
		return nil, fmt.Errorf("reading the sockets: %w", err)
	}
	return ports, nil
}
