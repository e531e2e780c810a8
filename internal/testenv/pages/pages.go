// Package pages helps tests that hold the pages of docs/ to the code: it reads
// tables of pages and constants of the source, and compares their names.
package pages

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Path returns the path of a file, given relative to the root of the repository.
func Path(name string) string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..", filepath.FromSlash(name))
}

// Read returns the text of a page of docs/.
func Read(t testing.TB, page string) string {
	t.Helper()
	text, err := os.ReadFile(Path("docs/" + page))
	require.NoError(t, err)
	return string(text)
}

// Table returns the rows of the first table below a heading of a page, without
// its header. The heading includes its number signs.
func Table(t testing.TB, page, heading string) [][]string {
	t.Helper()
	_, section, found := strings.Cut("\n"+Read(t, page), "\n"+heading+"\n")
	require.True(t, found, "docs/%s has no heading %q", page, heading)
	var rows [][]string
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "|"):
			cells := strings.Split(strings.ReplaceAll(strings.Trim(line, "|"), `\|`, "\x00"), "|")
			for i := range cells {
				cells[i] = strings.ReplaceAll(strings.TrimSpace(cells[i]), "\x00", "|")
			}
			rows = append(rows, cells)
		case len(rows) > 0 || strings.HasPrefix(line, "#"):
			require.Greater(t, len(rows), 2, "docs/%s has no table below %q", page, heading)
			return rows[2:]
		}
	}
	require.Greater(t, len(rows), 2, "docs/%s has no table below %q", page, heading)
	return rows[2:]
}

// Quoted returns the texts between backquotes, in their order.
func Quoted(text string) []string {
	var found []string
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	return found
}

// FirstColumn returns the texts between backquotes in the first column of a
// table.
func FirstColumn(rows [][]string) []string {
	var found []string
	for _, row := range rows {
		found = append(found, Quoted(row[0])...)
	}
	return found
}

// Constants returns the values of the string constants of a source file, given
// relative to the root of the repository, that choose accepts by their name and
// the name of their type.
func Constants(t testing.TB, file string, choose func(name, typ string) bool) []string {
	t.Helper()
	source, err := parser.ParseFile(token.NewFileSet(), Path(file), nil, 0)
	require.NoError(t, err)
	var found []string
	ast.Inspect(source, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		typ := ""
		if id, ok := spec.Type.(*ast.Ident); ok {
			typ = id.Name
		}
		for i, name := range spec.Names {
			if i >= len(spec.Values) || !choose(name.Name, typ) {
				continue
			}
			if literal, ok := spec.Values[i].(*ast.BasicLit); ok && literal.Kind == token.STRING {
				value, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				found = append(found, value)
			}
		}
		return true
	})
	require.NotEmpty(t, found, "no constants in %s", file)
	return found
}

// OfType returns the values of the string constants of a type in a source file.
func OfType(t testing.TB, file, typ string) []string {
	t.Helper()
	return Constants(t, file, func(_, of string) bool { return of == typ })
}

// RequireSame fails the test if a name of the code is not on the page, or the
// other way round. The message lists the names.
func RequireSame(t testing.TB, page string, inCode, onPage []string) {
	t.Helper()
	missing, unknown := without(inCode, onPage), without(onPage, inCode)
	require.Empty(t, missing, "docs/%s lacks names that the code has", page)
	require.Empty(t, unknown, "docs/%s has names that the code lacks", page)
}

func without(names, others []string) []string {
	var rest []string
	for _, name := range names {
		if !slices.Contains(others, name) {
			rest = append(rest, name)
		}
	}
	slices.Sort(rest)
	return slices.Compact(rest)
}
