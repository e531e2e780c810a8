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

// BuildProgram returns the path of a Go program, built once per test process. The
// directory dir is relative to the root of this module and may hold a module of its
// own; pkg is a main package relative to dir.
func BuildProgram(t testing.TB, dir, pkg string) string {
	t.Helper()
	build, _ := builtPrograms.LoadOrStore(dir+" "+pkg, sync.OnceValues(func() (string, error) { return buildProgram(dir, pkg) }))
	path, err := build.(func() (string, error))()
	if err != nil {
		t.Fatalf("build %s in %s: %v", pkg, dir, err)
	}
	return path
}

var builtPrograms sync.Map // dir and pkg to the result of the build, for all tests of a process

// ProgramsDir returns the directory of the programs that BuildProgram returns.
func ProgramsDir(t testing.TB) string {
	t.Helper()
	dir, err := programsDir()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// programsDir returns a directory for this process alone: a build must not
// overwrite a program that another process runs.
func programsDir() (string, error) {
	dir, err := scratchDir()
	return filepath.Join(dir, "programs"), err
}

func buildProgram(dir, pkg string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	programs, err := programsDir()
	if err != nil {
		return "", err
	}
	out := filepath.Join(programs, path.Base(pkg))
	build := exec.Command("go", "build", "-buildvcs=false", "-o", out, pkg) // commits that change no program make no other images of it
	build.Dir = filepath.Join(root, dir)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	return out, nil
}
