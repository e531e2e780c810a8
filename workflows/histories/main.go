// Command histories plays the scenarios of package workflows on an embedded
// Temporal server and stores the histories that they leave for the replay
// tests. It needs bin/drover, and is run by make histories from the root of
// the module; flags go to go test (-update-histories is one of them).
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := record(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "histories:", err)
		os.Exit(1)
	}
}

// startTimeout bounds the start of the server.
const startTimeout = time.Minute

func record(ctx context.Context, flags []string) error {
	dir, err := os.MkdirTemp("", "drover-histories-")
	if err != nil {
		return fmt.Errorf("create data directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	address, stop, err := serve(ctx, dir)
	if err != nil {
		return err
	}
	defer stop()
	if len(flags) == 0 {
		flags = []string{"-update-histories"}
	}
	test := exec.CommandContext(ctx, "go", append([]string{"test", "-count=1", "-run", "TestServer", "./workflows"}, flags...)...) //nolint:gosec // the flags are those of the maintainer who runs it
	test.Env = append(os.Environ(), "DROVER_TEST_TEMPORAL="+address, "DROVER_REQUIRE=temporal")
	test.Stdout, test.Stderr = os.Stdout, os.Stderr
	if err := test.Run(); err != nil {
		return fmt.Errorf("play scenarios: %w", err)
	}
	return nil
}

var serving = regexp.MustCompile(`at (127\.0\.0\.1:[0-9]+)`)

// serve starts an embedded server on a free port.
func serve(ctx context.Context, dir string) (address string, stop func(), err error) {
	server := exec.CommandContext(ctx, "bin/drover", "start", "temporal", "--data-dir", dir, "--temporal", "127.0.0.1:0", "--temporal-ui", "")
	server.Stderr = os.Stderr
	server.Cancel = func() error { return server.Process.Signal(syscall.SIGTERM) }
	out, err := server.StdoutPipe()
	if err != nil {
		return "", nil, fmt.Errorf("read output of server: %w", err)
	}
	if err := server.Start(); err != nil {
		return "", nil, fmt.Errorf("start bin/drover start temporal: %w", err)
	}
	stop = func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait()
	}
	found := make(chan string, 1)
	go func() {
		defer close(found)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if m := serving.FindStringSubmatch(lines.Text()); m != nil {
				found <- m[1]
				break
			}
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	select {
	case address, ok := <-found:
		if ok {
			return address, stop, nil
		}
	case <-timer.C:
	case <-ctx.Done():
	}
	stop()
	return "", nil, errors.New("bin/drover start temporal did not start to serve")
}
