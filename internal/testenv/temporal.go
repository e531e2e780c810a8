package testenv

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// temporalVariable names the environment variable with the address of a Temporal
// server for tests, which must have Drover's namespace. With the value "auto", as
// make verify sets it, each test starts a server from bin/drover.
const temporalVariable = "DROVER_TEST_TEMPORAL"

var temporalServes = regexp.MustCompile(`at (127\.0\.0\.1:[0-9]+)`)

// RequireTemporal returns the address of a Temporal server. If there is none, the
// test is skipped, or fails if DROVER_REQUIRE names temporal.
func RequireTemporal(t testing.TB) string {
	t.Helper()
	Use(t, "temporal")
	switch address := os.Getenv(temporalVariable); address {
	case "":
		Missing(t, "temporal", temporalVariable+" is not set", "run make verify STAGES=services, which sets it to auto, or set it to the address of a drover start temporal")
		return ""
	case "auto":
		return startTemporal(t)
	default:
		return address
	}
}

// startTemporal starts an embedded server, which ends with the test.
func startTemporal(t testing.TB) string {
	t.Helper()
	binary := moduleFile(t, filepath.Join("bin", "drover"))
	if _, err := os.Stat(binary); err != nil {
		Missing(t, "temporal", "there is no "+binary, "run make build")
	}
	server := exec.CommandContext(t.Context(), binary, "start", "temporal", "--data-dir", t.TempDir(), "--temporal", "127.0.0.1:0", "--temporal-ui", "")
	// Not the standard error of the test: if the test dies, the server would keep
	// it open.
	log, err := os.CreateTemp(t.TempDir(), "temporal-*.log")
	require.NoError(t, err)
	server.Stderr = log
	out, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill() // its data goes with the test
		_ = server.Wait()
		if serverLog, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("output of drover start temporal:\n%s", serverLog)
		}
		_ = log.Close()
	})
	found := make(chan string, 1)
	go func() {
		defer close(found)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if m := temporalServes.FindStringSubmatch(lines.Text()); m != nil {
				found <- m[1]
				break
			}
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	select {
	case address, ok := <-found:
		require.True(t, ok, "drover start temporal ended while starting")
		return address
	case <-Expired(t):
		t.Fatal("drover start temporal did not start to serve in time")
	}
	return ""
}

// moduleFile returns the path of a file in the module of the running test.
func moduleFile(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, name)
		}
		parent := filepath.Dir(dir)
		require.NotEqual(t, dir, parent, "the test is in no module")
		dir = parent
	}
}
