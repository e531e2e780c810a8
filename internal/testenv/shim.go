package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// BuildShim returns the path of a static drover-shim for Linux, built from the
// source once per test process.
func BuildShim(t testing.TB) string {
	t.Helper()
	path, err := builtShim()
	if err != nil {
		t.Fatalf("build drover-shim: %v", err)
	}
	return path
}

var builtShim = sync.OnceValues(func() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	dir, err := scratchDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "shim", "drover-shim")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "./cmd/drover-shim")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module root: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// sharedDir returns a directory that all test processes of a user share.
func sharedDir(t testing.TB) string {
	t.Helper()
	dir, err := makeSharedDir()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func makeSharedDir() (string, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("drover-test-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("create the shared directory of the tests: %w", err)
	}
	return dir, nil
}
