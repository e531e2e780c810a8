package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/run"
)

// listServer serves lists of 7 items in pages that are shorter than asked for, or empty.
// position is the parameter with the position of a page, which is PAGE.ITEM. Pages from
// number fail on are refused, unless it is 0.
func listServer(t *testing.T, key, next, position, item string, fail int) string {
	t.Helper()
	const items = 7
	sizes := []int{2, 0, 0, 1, 3}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		limit, err := strconv.Atoi(q.Get("limit"))
		if q.Has("limit") && (err != nil || limit < 1) {
			t.Errorf("limit %q", q.Get("limit"))
		} else if !q.Has("limit") {
			limit = items
		}
		var number, first int
		if at := q.Get(position); at != "" {
			if _, err := fmt.Sscanf(at, "%d.%d", &number, &first); err != nil {
				t.Errorf("position %q: %v", at, err)
			}
		}
		if fail > 0 && number >= fail {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprint(w, `{"status": 403, "code": "forbidden", "title": "Forbidden", "detail": "not this page"}`)
			return
		}
		last := min(first+min(limit, sizes[number%len(sizes)]), items)
		list := []json.RawMessage{}
		for i := first; i < last; i++ {
			list = append(list, json.RawMessage(strings.ReplaceAll(item, "NAME", "item-"+strconv.Itoa(i))))
		}
		page := map[string]any{key: list}
		if last < items {
			page[next] = fmt.Sprintf("%d.%d", number+1, last)
		}
		if q.Has("token_for") {
			page["changegroup_token"] = fmt.Sprintf("token-%d", number)
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(page); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// pagedList is a command that reads a list in pages.
type pagedList struct {
	args                      []string
	key, next, position, item string
	all                       bool // the list has no limit
}

func pagedLists() map[string]pagedList {
	return map[string]pagedList{
		"runs":         {[]string{"runs", "list"}, "runs", "next_cursor", "cursor", `{"id": "NAME"}`, false},
		"runs, token":  {[]string{"runs", "list", "--token-for", "deploys"}, "runs", "next_cursor", "cursor", `{"id": "NAME"}`, false},
		"audit":        {[]string{"audit", "list"}, "records", "next_cursor", "cursor", `{"id": "1", "subject": "NAME"}`, false},
		"schedules":    {[]string{"schedules", "list"}, "schedules", "next_after", "after", `{"name": "NAME"}`, false},
		"approvals":    {[]string{"approvals", "list"}, "approvals", "next_after", "after", `{"run": "NAME"}`, true},
		"changegroups": {[]string{"changegroups", "list"}, "changegroups", "next_after", "after", `{"name": "NAME"}`, true},
		"groups":       {[]string{"groups", "list"}, "groups", "next_after", "after", `{"path": "NAME"}`, true},
	}
}

// TestLists_short_pages: a gateway may answer with a page that is shorter than asked for,
// or empty, although there are more items. Lists go on until they have as many as asked for.
func TestLists_short_pages(t *testing.T) {
	t.Parallel()
	for name, x := range pagedLists() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := listServer(t, x.key, x.next, x.position, x.item, 0)
			list := func(want int, args ...string) (stdout, stderr string) {
				t.Helper()
				args = slices.Concat(x.args, args)
				code, stdout, stderr := execute(t, server, nil, args...)
				require.Equal(t, command.ExitOK, code, "%v: %s", args, stderr)
				for i := range 7 {
					require.Equal(t, i < want, strings.Contains(stdout, "item-"+strconv.Itoa(i)), "%v: item %d: %s", args, i, stdout)
				}
				return stdout, stderr
			}
			_, stderr := list(7)
			require.NotContains(t, stderr, "There are more")
			var page map[string]any
			stdout, _ := list(7, "-o", "json")
			require.NoError(t, json.Unmarshal([]byte(stdout), &page), "one document")
			if x.all {
				return
			}
			_, stderr = list(5, "--limit", "5")
			require.Contains(t, stderr, "There are more: --"+x.position+" 5.5, or --all")
			stdout, _ = list(5, "--limit", "5", "-o", "json")
			page = nil
			require.NoError(t, json.Unmarshal([]byte(stdout), &page))
			require.Equal(t, "5.5", page[x.next])
			if strings.Contains(name, "token") {
				require.Equal(t, "token-0", page["changegroup_token"], "it must not be newer than the runs")
				require.Contains(t, stderr, "Update token: token-0")
				return
			}
			stdout, _ = list(7, "--all", "-o", "json")
			require.NotContains(t, stdout, x.next)
			list(7, "--all")
		})
	}
}

// TestLists_failed_page: a page after others fails. A list prints the items before it and how
// to go on, and ends with the exit code of the error. It prints no update token, which would
// cover items that were not read.
func TestLists_failed_page(t *testing.T) {
	t.Parallel()
	for name, x := range pagedLists() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := listServer(t, x.key, x.next, x.position, x.item, 3)
			list := func(args ...string) string {
				t.Helper()
				args = slices.Concat(x.args, args)
				code, stdout, stderr := execute(t, server, nil, args...)
				require.Equal(t, command.ExitOfCode(run.CodeForbidden), code, "%v: %s", args, stderr)
				require.Contains(t, stdout, "item-1", args)
				require.Contains(t, stderr, "The list is incomplete", args)
				require.Contains(t, stderr, "not this page", args)
				require.Equal(t, !x.all, strings.Contains(stderr, "--"+x.position+" 3.2\n"), stderr)
				require.NotContains(t, stdout+stderr, "token-", args)
				return stdout
			}
			list()
			var page map[string]any
			require.NoError(t, json.Unmarshal([]byte(list("-o", "json")), &page))
			require.Len(t, page[x.key], 2)
			require.Equal(t, "3.2", page[x.next])
			if !x.all {
				if !strings.Contains(name, "token") {
					list("--all")
					require.Contains(t, list("--all", "-o", "json"), `"3.2"`)
				}
				code, stdout, stderr := execute(t, server, nil, slices.Concat(x.args, []string{"--" + x.position, "3.2"})...)
				require.Equal(t, command.ExitOfCode(run.CodeForbidden), code)
				require.Empty(t, stdout)
				require.NotContains(t, stderr, "incomplete")
			}
		})
	}
}
