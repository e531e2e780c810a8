package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// testPackage is a package with tests.
type testPackage struct {
	module, dir string                     // the directory is relative to the module
	tests       map[string]map[string]bool // the services that each test function uses
}

func (p testPackage) pattern() string {
	if p.dir == "." {
		return "."
	}
	return "./" + p.dir
}

// load reads the tests of all modules below a directory.
func load(dir string) ([]testPackage, error) {
	var all []testPackage
	for _, module := range modules() {
		err := filepath.WalkDir(filepath.Join(dir, module), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return fmt.Errorf("list the packages: %w", err)
			}
			if !d.IsDir() {
				return nil
			}
			rel, err := filepath.Rel(filepath.Join(dir, module), path)
			if err != nil {
				return fmt.Errorf("list the packages: %w", err)
			}
			if rel != "." {
				_, err := os.Stat(filepath.Join(path, "go.mod"))
				if name := d.Name(); err == nil || name == "testdata" || name == "node_modules" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
					return filepath.SkipDir
				}
			}
			tests, err := readTests(path)
			if len(tests) > 0 {
				all = append(all, testPackage{module: module, dir: filepath.ToSlash(rel), tests: tests})
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// readTests returns the test functions of a directory, each with the services that it
// or a function that it calls in the package asks package testenv for.
func readTests(dir string) (map[string]map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("list the files: %w", err)
	}
	functions := map[string]*function{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("read the tests: %w", err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			if functions[f.Name.Name] == nil {
				functions[f.Name.Name] = &function{services: map[string]bool{}}
			}
			functions[f.Name.Name].read(f.Body)
			functions[f.Name.Name].test = f.Recv == nil && strings.HasSuffix(name, "_test.go") && isTest(f.Name.Name)
		}
	}
	tests := map[string]map[string]bool{}
	for name, f := range functions {
		if f.test {
			tests[name] = map[string]bool{}
			collect(functions, name, tests[name], map[string]bool{})
		}
	}
	return tests, nil
}

func isTest(name string) bool {
	for _, prefix := range []string{"Test", "Fuzz", "Example"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && name != "TestMain" && (rest == "" || rest[0] < 'a' || rest[0] > 'z') {
			return true
		}
	}
	return false
}

// function is what a function, or a method of any type with that name, refers to.
type function struct {
	test     bool
	services map[string]bool
	names    []string
}

// read notes what a body refers to.
func (f *function) read(body *ast.BlockStmt) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			f.names = append(f.names, n.Name)
		case *ast.CallExpr:
			if service := serviceOf(n); service != "" {
				f.services[service] = true
			}
		}
		return true
	})
}

// serviceOf returns the service that a call asks for, "" if none.
func serviceOf(call *ast.CallExpr) string {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if (s.Sel.Name == "Missing" || s.Sel.Name == "Use") && len(call.Args) > 1 {
		if literal, ok := call.Args[1].(*ast.BasicLit); ok {
			service, _ := strconv.Unquote(literal.Value) // the compiler has read it
			return service
		}
	}
	if of, ok := s.X.(*ast.Ident); !ok || of.Name != "testenv" {
		return ""
	}
	return map[string]string{
		"RequireDocker": "docker", "RequirePostgres": "postgres", "RequireTemporal": "temporal", "RequireS3": "s3",
		"RequireDisk": "loop", "StartSSHD": "sshd", "RequireKubernetes": "kubernetes",
	}[s.Sel.Name]
}

// collect adds the services of a function and of all that it refers to.
func collect(functions map[string]*function, name string, services, seen map[string]bool) {
	f := functions[name]
	if f == nil || seen[name] {
		return
	}
	seen[name] = true
	for service := range f.services {
		services[service] = true
	}
	for _, name := range f.names {
		collect(functions, name, services, seen)
	}
}
