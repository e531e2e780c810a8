package controller_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/drover-run/drover/internal/testenv/pages"
	"github.com/drover-run/drover/run"
)

// TestPage_reasons compares the reasons of instances and of scaling decisions
// with the table of the page.
func TestPage_reasons(t *testing.T) {
	t.Parallel()
	inCode := slices.Concat(
		pages.OfType(t, "fleeting/scaling/scaling.go", "Reason"),
		pages.Constants(t, "fleeting/controller/plan.go", func(name, _ string) bool { return strings.HasPrefix(name, "reason") }),
		[]string{string(run.CausePreexisted), string(run.CauseUnexpected), "listed", "health_check"}, // of observe.go
	)
	pages.RequireSame(t, "errors.md", inCode, pages.FirstColumn(pages.Table(t, "errors.md", "## Fleets")))
}
