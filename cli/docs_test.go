package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/internal/testenv/pages"
	"github.com/drover-run/drover/run"
)

// TestPage_exit_codes compares the exit codes of errors, and the list of exit
// codes, with the page.
func TestPage_exit_codes(t *testing.T) {
	t.Parallel()
	const page = "errors.md"
	for _, row := range pages.Table(t, page, "## Problems") {
		code := pages.Quoted(row[0])[0]
		require.Equal(t, fmt.Sprint(int(command.ExitOfCode(run.Code(code)))), row[2], "the exit code of %s on docs/%s", code, page)
	}
	var inCode []string
	for _, code := range []command.ExitCode{command.ExitOK, command.ExitFailed, command.ExitInvalid, command.ExitStopped, command.ExitNoAccess, command.ExitOther} {
		inCode = append(inCode, fmt.Sprint(int(code)))
	}
	pages.RequireSame(t, page, inCode, pages.FirstColumn(pages.Table(t, page, "## Exit codes")))
}

// TestPage_variables compares the environment variables of the client commands
// with the table of the page.
func TestPage_variables(t *testing.T) {
	t.Parallel()
	isVariable := func(name, _ string) bool { return strings.HasPrefix(name, "variable") }
	inCode := pages.Constants(t, "cli/session/context.go", isVariable)
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	literal := regexp.MustCompile(`\.Variable\("([A-Z_]+)"\)`)
	for _, file := range slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, "_test.go") }) {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range literal.FindAllSubmatch(source, -1) {
			inCode = append(inCode, string(m[1]))
		}
	}
	pages.RequireSame(t, "configuration.md", inCode, pages.FirstColumn(pages.Table(t, "configuration.md", "## Clients")))
}
