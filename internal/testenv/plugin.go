package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"sync"
	"testing"
)

// BuildProgram returns the path of a Go program, built once per test process: pkg
// is a main package as seen from dir, relative to this module's root, in a
// module of its own.
func BuildProgram(t testing.TB, dir, pkg string) string {
	t.Helper()
	build, _ := builtPrograms.LoadOrStore(dir+" "+pkg, sync.OnceValues(func() (string, error) { return buildProgram(dir, pkg) }))
	path, err := build.(func() (string, error))()
	if err != nil {
		t.Fatalf("building %s in %s: %v", pkg, dir, err)
	}
	return path
}

var builtPrograms sync.Map // what was built, for all tests of a process

func buildProgram(dir, pkg string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	shared, err := makeSharedDir()
	if err != nil {
		return "", err
	}
	// A directory for each process: another may run what it built.
	out := filepath.Join(shared, fmt.Sprintf("programs-%d", os.Getpid()), path.Base(pkg))
	build := exec.Command("go", "build", "-o", out, pkg)
	build.Dir = filepath.Join(root, dir)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	return out, nil
}
