package gateway_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/internal/testenv/pages"
	"github.com/drover-run/drover/run"
)

const (
	boundsPage = "bounds.md"
	// unbounded is the bound of an operation whose cost no bound limits, apart from its time.
	// A reason follows it.
	unbounded = "no bound"
)

// testFunctions returns the names of all test functions of the repository, and of the tests
// of package recordstest, which run on each database.
func testFunctions(t *testing.T) map[string]bool {
	t.Helper()
	functions := regexp.MustCompile(`(?m)^func (Test\w+|Fuzz\w+|test\w+)\((?:[tf] \*testing\.[TF]\)|t \*testing\.T, d \*fixture\.Database\))`)
	names := map[string]bool{}
	require.NoError(t, filepath.WalkDir(pages.Path("."), func(path string, d fs.DirEntry, err error) error {
		switch name := filepath.ToSlash(path); {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || d.Name() == ".git"):
			return filepath.SkipDir
		case !d.IsDir() && (strings.HasSuffix(name, "_test.go") || strings.Contains(name, "/records/recordstest/") && strings.HasSuffix(name, ".go")):
			text, err := os.ReadFile(path)
			for _, m := range functions.FindAllSubmatch(text, -1) {
				names[string(m[1])] = true
			}
			return err
		}
		return nil
	}))
	return names
}

// TestPage_bounds: each operation of the contract is in the table with what bounds its cost,
// and each bound has a number and tests that exist, and each lack of one a reason. The
// largest page is that of the contract.
func TestPage_bounds(t *testing.T) {
	t.Parallel()
	functions := testFunctions(t)
	requireTests := func(row []string) {
		named := pages.Quoted(row[3])
		require.NotEmpty(t, named, "%s: name the test that holds the bound", row[0])
		for _, name := range named {
			require.True(t, functions[name], "docs/%s names the test %s, which does not exist", boundsPage, name)
		}
	}
	reasons := map[string]bool{}
	for _, row := range pages.Table(t, boundsPage, "## Without a bound") {
		require.Len(t, row, 2)
		require.NotEmpty(t, row[1], row[0])
		reasons[row[0]] = false
	}
	// requireReason requires the reason of a bound that is none, and marks it as used.
	requireReason := func(bound, of string) (missing bool) {
		name, reason, _ := strings.Cut(bound, ": ")
		if name != unbounded {
			return false
		}
		_, known := reasons[reason]
		require.True(t, known, "%s: docs/%s does not explain %q", of, boundsPage, bound)
		reasons[reason] = true
		return true
	}
	bounds, used := map[string]bool{unbounded: true}, map[string]bool{}
	for _, row := range pages.Table(t, boundsPage, "## Bounds") {
		require.Len(t, row, 4)
		require.NotEmpty(t, row[2], row[0])
		bounds[row[0]] = true
		requireTests(row)
	}
	for _, row := range pages.Table(t, boundsPage, "## In the background") {
		require.Len(t, row, 4)
		if !requireReason(row[2], row[0]) {
			requireTests(row)
		}
	}
	rows := map[string][]string{}
	for _, row := range pages.Table(t, boundsPage, "## Operations") {
		require.Len(t, row, 3)
		for _, id := range pages.Quoted(row[0]) {
			require.NotContains(t, rows, id)
			rows[id] = strings.Split(row[2], ", ")
		}
		for name := range strings.SplitSeq(row[2], ", ") {
			requireReason(name, row[0])
			name, _, _ = strings.Cut(name, ": ")
			require.True(t, bounds[name], "docs/%s does not explain %q", boundsPage, name)
			used[name] = true
		}
	}
	for _, item := range contract(t).Paths.Map() {
		for _, op := range item.Operations() {
			row, known := rows[op.OperationID]
			require.True(t, known, "say in docs/%s what bounds the cost of the operation %s", boundsPage, op.OperationID)
			delete(rows, op.OperationID)
			_, stream := op.Extensions["x-stream"]
			require.NotEqual(t, stream, slices.Contains(row, "time"), "%s: a call has a limit of time if it is no stream", op.OperationID)
			page := slices.DeleteFunc(slices.Clone(row), func(name string) bool { return !strings.HasPrefix(name, "page: ") })
			var want []string
			if p := op.Parameters.GetByInAndName("query", "limit"); p != nil {
				require.NotNil(t, p.Schema.Value.Max, "the limit of %s needs a maximum", op.OperationID)
				want = append(want, "page: "+strconv.Itoa(int(*p.Schema.Value.Max)))
			}
			require.ElementsMatch(t, want, page, op.OperationID)
		}
	}
	require.Empty(t, rows, "these are no operations")
	for reason, used := range reasons {
		require.True(t, used, "nothing lacks a bound for the reason %q", reason)
	}
	for name := range bounds {
		require.True(t, used[name], "%q bounds no operation", name)
	}
}

// TestServer_page_limits asks each operation that has pages for more than the largest.
func TestServer_page_limits(t *testing.T) {
	t.Parallel()
	base, tried := serve(t, gateway.Deps{Runs: strictService(t)}, gateway.Options{}), 0
	for path, item := range contract(t).Paths.Map() {
		for method, op := range item.Operations() {
			p := op.Parameters.GetByInAndName("query", "limit")
			if p == nil {
				continue
			}
			tried++
			path := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(path, "x")
			got := call{method: method, path: path + "?limit=" + strconv.Itoa(int(*p.Schema.Value.Max)+1)}.do(t, base)
			require.Equal(t, "limit", got.problem(t, 400, run.CodeInvalid).Errors[0].Path, op.OperationID)
		}
	}
	require.Positive(t, tried)
}
