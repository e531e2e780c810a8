package archtest_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The limits of docs/structure.md. A file counts if it is no test, a method if
// it is not generated.
const (
	maxFiles   = 32 // of a package
	maxMethods = 45 // of a receiver
	maxFolders = 22 // with Go code, at the top level
)

// tooLarge lists the packages and receivers over their limit, with the most that
// each may have. The numbers only go down.
func tooLarge() map[string]int {
	return map[string]int{
		"gateway.Server": 120, // one method for each operation of the API
	}
}

// layers lists the packages from the bottom to the top. An entry stands for all
// packages below it that have no entry of their own. A package imports its own
// layer and those before it.
func layers() [][]string {
	return [][]string{
		{"internal", "fleeting"},
		{"run"},
		{
			"api", "blobs", "contract", "executor", "fleeting/scaling", "internal/roles", "internal/archive", "internal/codec", "internal/secrets",
			"internal/testenv", "internal/tokens", "records", "spec",
		},
		{
			"executor/agent", "executor/controlplane", "executor/docker", "executor/executortest", "executor/gitstore", "executor/kubernetes", "executor/shell",
			"executor/shim", "executor/transfer", "fleeting/controller", "fleeting/simulate", "records/internal", "records/postgres",
			"records/recordstest", "records/sqlite", "webhooks",
		},
		{"activities", "engine", "relay", "workflows"},
		{"cli", "gateway", "workers"},
		{"cmd"},
		{"deploy", "examples", "test"},
	}
}

// goPackage is what the check knows of a package.
type goPackage struct {
	files   int
	methods map[string]int      // by the name of the receiver
	imports map[string]struct{} // packages of this module
}

// parsePackages parses the Go files of the module that are no tests, for all
// systems and build tags. It also returns the folders at the top level that have
// Go files.
func parsePackages(t *testing.T) (packages map[string]*goPackage, folders []string) {
	t.Helper()
	packages = map[string]*goPackage{}
	top := map[string]bool{}
	root := os.DirFS("../..")
	require.NoError(t, fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, err := fs.Stat(root, path.Join(name, "go.mod"))
			if name != "." && (err == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		if folder, _, below := strings.Cut(name, "/"); below {
			top[folder] = true
		}
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		dir := path.Dir(name)
		if packages[dir] == nil {
			packages[dir] = &goPackage{methods: map[string]int{}, imports: map[string]struct{}{}}
		}
		return packages[dir].parse(name)
	}))
	return packages, slices.Sorted(maps.Keys(top))
}

func (p *goPackage) parse(name string) error {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", name), nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parse %s: %w", name, err)
	}
	p.files++
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return fmt.Errorf("read an import of %s: %w", name, err)
		}
		if own, ok := strings.CutPrefix(imported, module+"/"); ok {
			p.imports[own] = struct{}{}
		}
	}
	if ast.IsGenerated(file) {
		return nil
	}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv != nil {
			p.methods[receiver(f.Recv.List[0].Type)]++
		}
	}
	return nil
}

// receiver returns the name of the type of a receiver.
func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return fmt.Sprintf("%T", x)
}

// TestStructure prints the size of the packages, and enforces the limits.
func TestStructure(t *testing.T) {
	t.Parallel()
	packages, folders := parsePackages(t)
	files, methods := map[string]int{}, map[string]int{}
	for dir, p := range packages {
		files[dir] = p.files
		for name, n := range p.methods {
			methods[dir+"."+name] = n
		}
	}
	checkSizes(t, "files of the package", files, maxFiles)
	checkSizes(t, "methods of the receiver", methods, maxMethods)
	t.Logf("top-level folders with Go code: %d (limit %d): %s", len(folders), maxFolders, strings.Join(folders, " "))
	require.LessOrEqual(t, len(folders), maxFolders)
	for name := range tooLarge() {
		require.Contains(t, []bool{files[name] > 0, methods[name] > 0}, true, "%s is in the list of what is too large, and does not exist", name)
	}
}

// checkSizes prints the largest sizes, and enforces a limit.
func checkSizes(t *testing.T, what string, sizes map[string]int, limit int) {
	t.Helper()
	const shown = 12
	names := slices.SortedFunc(maps.Keys(sizes), func(a, b string) int {
		return cmp.Or(cmp.Compare(sizes[b], sizes[a]), strings.Compare(a, b))
	})
	for i, name := range names {
		allowed, listed := tooLarge()[name]
		if i < shown || listed {
			t.Logf("%4d %s %s", sizes[name], what, name)
		}
		switch {
		case listed && sizes[name] <= limit:
			t.Errorf("%s has %d, within the limit of %d: remove it from the list of what is too large", name, sizes[name], limit)
		case sizes[name] > max(limit, allowed):
			t.Errorf("%s has %d, more than %d: split it by purpose", name, sizes[name], max(limit, allowed))
		}
	}
}

// TestStructure_imports checks that no package imports a higher layer, and that
// the folders at the top level do not import each other in a cycle.
func TestStructure_imports(t *testing.T) {
	t.Parallel()
	packages, _ := parsePackages(t)
	edges := map[string]map[string]struct{}{}
	for dir, p := range packages {
		own := layerOf(dir)
		if own < 0 {
			t.Errorf("package %s is in no layer", dir)
		}
		for imported := range p.imports {
			if layerOf(imported) > own {
				t.Errorf("%s imports %s, which is in a higher layer", dir, imported)
			}
			if from, to := folderOf(dir), folderOf(imported); from != to && from != "test" {
				if edges[from] == nil {
					edges[from] = map[string]struct{}{}
				}
				edges[from][to] = struct{}{}
			}
		}
	}
	for _, from := range slices.Sorted(maps.Keys(edges)) {
		if reaches(edges, from, from, map[string]bool{}) {
			t.Errorf("%s imports itself through other folders", from)
		}
	}
}

// layerOf returns the number of a package's layer, -1 for none.
func layerOf(dir string) int {
	for name := dir; name != "."; name = path.Dir(name) {
		if i := slices.IndexFunc(layers(), func(layer []string) bool { return slices.Contains(layer, name) }); i >= 0 {
			return i
		}
	}
	return -1
}

// folderOf returns the folder at the top level that holds a package; each folder
// below internal counts as one of its own.
func folderOf(dir string) string {
	parts := strings.SplitN(dir, "/", 3)
	if parts[0] == "internal" && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

// reaches reports whether edges lead from one folder to another.
func reaches(edges map[string]map[string]struct{}, from, to string, seen map[string]bool) bool {
	for next := range edges[from] {
		if next == to {
			return true
		}
		if !seen[next] {
			seen[next] = true
			if reaches(edges, next, to, seen) {
				return true
			}
		}
	}
	return false
}
