package run_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

func TestForeachItems(t *testing.T) {
	t.Parallel()
	itemsOf := func(f run.Foreach, text string, room int) ([]string, error) {
		return f.Items(func(run.OutputRef) (string, error) { return text, nil }, room)
	}
	const list = `{{ output "plan" "items" }}`
	items := func(text string, room int) ([]string, error) { return itemsOf(run.Foreach{List: list}, text, room) }
	got, err := items(` ["a", "b c", 1.50, {"k": [1, null]}, true, null, "\u00e9", ""] `, 100)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b c", "1.50", `{"k":[1,null]}`, "true", "null", "é", ""}, got)
	require.Equal(t, map[string]string{"DROVER_ITEM": "a", "DROVER_ITEM_INDEX": "3"}, run.ItemAxis("a", 3))

	many := "[" + strings.Repeat("1,", run.MaxForeach-1) + "1]"
	got, err = items(many, run.MaxTasks)
	require.NoError(t, err)
	require.Len(t, got, run.MaxForeach)

	for text, want := range map[string]string{
		"":                 "is not JSON: it ends too early",
		"a,b":              `the list {{ output "plan" "items" }} of foreach is not JSON: a value is expected; a text is in double quotes`,
		`["a"`:             "is not JSON: it ends too early",
		`["a"] x`:          "is not JSON: there is more after its end",
		`["a",]`:           "is not JSON: a value is missing, or there is a comma too many",
		`{"a": 1}`:         "is an object and not a list",
		`"a"`:              "is a string and not a list",
		"12":               "is a number and not a list",
		"true":             "is a boolean and not a list",
		"null":             "is null and not a list",
		"[1," + many[1:]:   "has 5001 items; it must have 0 to 5000",
		"[1, 2, 3, 4]":     "has 4 items, and the run has room for 3 more tasks: the limit is 10000",
		`["a", "b\u0000"]`: `item 1 of the list {{ output "plan" "items" }} of foreach`,
		`["` + strings.Repeat("x", run.MaxVariableBytes) + `"]`: "has 131072 bytes; it must have less than",
	} {
		_, err := items(text, 3)
		if strings.HasPrefix(text, "[1,1") {
			_, err = items(text, run.MaxTasks)
		}
		require.Equal(t, run.CodeInvalid, run.CodeOf(err), text)
		require.ErrorContains(t, err, want)
	}
	got, err = items(" [ ] ", 0)
	require.NoError(t, err)
	require.Empty(t, got)
	_, err = itemsOf(run.Foreach{List: list, Min: 1}, "[]", 3)
	require.ErrorContains(t, err, "is an empty list; it must have 1 to 5000 items")
	_, err = itemsOf(run.Foreach{List: list, Min: 2}, "[1]", 3)
	require.ErrorContains(t, err, "has 1 items; it must have 2 to 5000")
	_, err = itemsOf(run.Foreach{List: list, Min: 2}, "[1, 2]", 3)
	require.NoError(t, err)

	_, err = run.Foreach{List: list}.Items(func(run.OutputRef) (string, error) {
		return "", run.Errorf(run.CodeNotFound, "task plan put out nothing")
	}, 3)
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
	require.EqualError(t, err, "foreach: task plan put out nothing")
}
