package stepenv_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/executor/shim/stepenv"
	"github.com/drover-run/drover/internal/testenv/pages"
	"github.com/drover-run/drover/run"
)

// TestPage_variables compares the variables that the shim gives to every step
// with the page. The variables of a foreach come from the definition.
func TestPage_variables(t *testing.T) {
	t.Parallel()
	const page = "variables.md"
	env := &stepenv.Env{User: process.Account{Name: "user", Home: "/home/user"}}
	inCode := slices.Collect(maps.Keys(env.Variables(run.StepDef{}, "/output")))
	var onPage []string
	for _, name := range pages.FirstColumn(pages.Table(t, page, "## Variables that Drover sets")) {
		if !strings.HasPrefix(name, run.VariableItem) {
			onPage = append(onPage, name)
		}
	}
	for _, row := range pages.Table(t, page, "## Variables of the environment") {
		if row[1] == "all" {
			onPage = append(onPage, pages.Quoted(row[0])...)
		}
	}
	pages.RequireSame(t, page, inCode, onPage)
}
