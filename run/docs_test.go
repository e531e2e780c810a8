package run_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv/pages"
)

// TestPage_faults compares the codes of faults with the table of the page. A
// fault may also have a code of a problem.
func TestPage_faults(t *testing.T) {
	t.Parallel()
	onPage := pages.FirstColumn(pages.Table(t, "errors.md", "## Faults"))
	problems := pages.OfType(t, "run/error.go", "Code")
	faults := pages.OfType(t, "run/fault.go", "Code")
	onPage = slices.DeleteFunc(onPage, func(code string) bool {
		return slices.Contains(problems, code) && !slices.Contains(faults, code)
	})
	pages.RequireSame(t, "errors.md", faults, onPage)
}

// TestPage_causes compares the causes of failures with the table of the page and
// with the contract of the API.
func TestPage_causes(t *testing.T) {
	t.Parallel()
	inCode := pages.OfType(t, "run/frame.go", "Cause")
	pages.RequireSame(t, "errors.md", inCode, pages.FirstColumn(pages.Table(t, "errors.md", "## Failed tasks")))
	inContract := regexp.MustCompile(`cause: \{type: string, enum: \[(step, [^]]*)\]`).FindStringSubmatch(pages.Read(t, "../api/openapi.yaml"))
	require.NotNil(t, inContract)
	pages.RequireSame(t, "../api/openapi.yaml", inCode, strings.Split(inContract[1], ", "))
}

// TestPage_variables compares the variables that Drover sets with the table of
// the page.
func TestPage_variables(t *testing.T) {
	t.Parallel()
	isVariable := func(name, _ string) bool { return strings.HasPrefix(name, "Variable") && name != "VariablePrefix" }
	inCode := slices.Concat(pages.Constants(t, "run/definition.go", isVariable), pages.Constants(t, "run/foreach.go", isVariable))
	pages.RequireSame(t, "variables.md", inCode, pages.FirstColumn(pages.Table(t, "variables.md", "## Variables that Drover sets")))
}
