package retry_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv/pages"
)

const retriesPage = "retries.md"

// pauseName matches the names of pauses between attempts.
var pauseName = regexp.MustCompile(`(?i)retry|pause|backoff|reconnect|again$`)

// noRetry are pauses that are not between attempts of something that failed.
func noRetry() []string {
	return []string{
		"engine/maintenance archivePause",          // between batches
		"executor/agent/frames idlePause",          // while there is nothing to send
		"executor/agent/frames SharedPause",        // collects frames
		"internal/dirlock retry",                   // waits for another process
		"records/sqlite lockRetry",                 // waits for another process
		"run DefaultDeletionRetry",                 // a setting of a fleet
		"run maxGrownBackoff",                      // of a run file
		"fleeting firstPause", "fleeting maxPause", // these are in fleets.md
		"fleeting/scaling initialBackoff", "fleeting/scaling maxBackoff",
		"fleeting/controller pluginRetryDelay", "fleeting/controller maxPluginRetryDelay",
	}
}

// source is what the packages of the product say about repetitions.
type source struct {
	pauses map[string]time.Duration // by package and name
	loops  map[string]string        // packages that repeat something, with a place
}

// duration evaluates expressions such as 5 * time.Minute.
func duration(e ast.Expr) (time.Duration, bool) {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		units := map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}
		unit, ok := units[e.Sel.Name]
		return unit, ok
	case *ast.BasicLit:
		n, err := strconv.Atoi(e.Value)
		return time.Duration(n), err == nil
	case *ast.BinaryExpr:
		x, known := duration(e.X)
		y, unit := duration(e.Y)
		return time.Duration(int64(x) * int64(y)), known && unit && e.Op == token.MUL
	}
	return 0, false
}

func readSource(t *testing.T) source {
	t.Helper()
	s := source{pauses: map[string]time.Duration{}, loops: map[string]string{}}
	root := pages.Path(".")
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			skipped := []string{"node_modules", "testdata", "test", "testenv", "tools", "plugins", "fleetingtest", "executortest", "histories"}
			if slices.Contains(skipped, d.Name()) || strings.HasPrefix(d.Name(), ".") && name != "." || name == "internal/retry" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		s.read(files, file, filepath.ToSlash(filepath.Dir(name)))
		return nil
	}))
	return s
}

func (s source) read(files *token.FileSet, file *ast.File, dir string) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if i < len(n.Values) {
					s.pause(dir, name.Name, n.Values[i])
				}
			}
		case *ast.KeyValueExpr:
			if name, ok := n.Key.(*ast.Ident); ok {
				s.pause(dir, name.Name, n.Value)
			}
		case *ast.SelectorExpr:
			p, ok := n.X.(*ast.Ident)
			if ok && slices.Contains([]string{"retry.Doubling", "retry.DoublingAfter", "backoff.NewConstantBackOff", "temporal.RetryPolicy"}, p.Name+"."+n.Sel.Name) {
				s.loops[dir] = files.Position(n.Pos()).String()
			}
		}
		return true
	})
}

func (s source) pause(dir, name string, value ast.Expr) {
	if d, ok := duration(value); ok && d >= time.Millisecond {
		s.pauses[dir+" "+name] = d
	}
}

// text writes a duration as the page does.
func text(d time.Duration) string {
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}} {
		if d%unit.size == 0 {
			return fmt.Sprintf("%d %s", d/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

// TestPage_retries: the table has the pauses of the source, a row for each package that
// repeats what failed, and each constant that is such a pause.
func TestPage_retries(t *testing.T) {
	t.Parallel()
	s := readSource(t)
	rows, named := map[string]bool{}, noRetry()
	for _, row := range pages.Table(t, retriesPage, "# What is repeated after a failure") {
		require.Len(t, row, 6)
		where := pages.Quoted(row[5])
		require.NotEmpty(t, where, row[0])
		dir, names := where[0], where[1:]
		rows[dir] = true
		for len(names) > 0 && strings.Contains(names[len(names)-1], "/") { // a package that uses them too
			rows[names[len(names)-1]] = true
			names = names[:len(names)-1]
		}
		want := []string{row[1]}
		if row[2] != "the same" {
			want = append(want, row[2])
		}
		require.Len(t, names, len(want), "%s: name the constants", row[0])
		for i, name := range names {
			d, known := s.pauses[dir+" "+name]
			require.True(t, known, "package %s has no pause %s", dir, name)
			require.Equal(t, text(d), want[i], "docs/%s: %s, %s", retriesPage, row[0], name)
			named = append(named, dir+" "+name)
		}
	}
	for dir, place := range s.loops {
		if dir == "fleeting/bootstrap" { // the page about fleets has its pauses
			continue
		}
		require.True(t, rows[dir], "say in docs/%s what %s repeats", retriesPage, place)
	}
	for name := range s.pauses {
		_, constant, _ := strings.Cut(name, " ")
		if pauseName.MatchString(constant) {
			require.Contains(t, named, name, "say in docs/%s what is repeated after the pause %s, or add it to noRetry", retriesPage, name)
		}
	}
	for _, name := range noRetry() {
		require.Contains(t, s.pauses, name)
	}
}
