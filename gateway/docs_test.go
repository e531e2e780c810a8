package gateway

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv/pages"
	"github.com/drover-run/drover/run"
)

// TestPage_problems compares the codes of problems and their HTTP statuses with
// the table of the page.
func TestPage_problems(t *testing.T) {
	t.Parallel()
	const page = "errors.md"
	rows := pages.Table(t, page, "## Problems")
	inCode := []string{string(codeMethodNotAllowed)}
	for _, code := range codes(t) {
		inCode = append(inCode, string(code))
	}
	pages.RequireSame(t, page, inCode, pages.FirstColumn(rows))
	for _, row := range rows {
		code := pages.Quoted(row[0])[0]
		require.Equal(t, strconv.Itoa(kindOf(run.Code(code)).status), row[1], "the HTTP status of %s on docs/%s", code, page)
	}
}

// TestContract_problems compares the codes of problems with those that the
// contract of the API lists.
func TestContract_problems(t *testing.T) {
	t.Parallel()
	_, list, found := strings.Cut(string(api.Document()), "A lower-case word: ")
	require.True(t, found)
	list, _, found = strings.Cut(list, "More may come.")
	require.True(t, found)
	inCode := []string{string(codeMethodNotAllowed)}
	for _, code := range codes(t) {
		inCode = append(inCode, string(code))
	}
	pages.RequireSame(t, "../api/openapi.yaml", inCode, pages.Quoted(list))
}
