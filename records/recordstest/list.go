package recordstest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

func listTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"equals_a_plain_filter":           testListModel,
		"groups_are_paths_and_literal":    testListGroups,
		"pages_are_stable_under_inserts":  testListStable,
		"cursors_belong_to_their_query":   testListCursors,
		"annotations_of_one_key_are_alts": testListAnnotations,
		"summaries_have_counts":           testListSummaries,
		"many_groups":                     testListManyGroups,
		"several_conditions":              testListSeveralConditions,
		"inputs":                          testListInputs,
		"warnings":                        testListWarnings,
	}
}

// testListModel compares lists with a filter over all runs, for random queries,
// paged through in both directions.
func testListModel(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	random := rand.New(rand.NewPCG(1, 2)) // a fixed seed
	all := listed(t, s, random)
	for range 300 {
		q := randomQuery(random, all)
		var want []run.ID
		for _, r := range all {
			if matches(q, r) {
				want = append(want, r.ID)
			}
		}
		slices.Sort(want)
		if !q.Ascending {
			slices.Reverse(want)
		}
		requirePages(t, s, q, want)
	}
}

// requirePages reads all pages forwards and backwards.
func requirePages(t *testing.T, s records.Store, q run.ListQuery, want []run.ID) {
	t.Helper()
	limit := cmp.Or(q.Limit, 25)
	var pages [][]run.ID
	var last run.Page
	for at := 0; ; at += limit {
		page, err := s.ListRuns(t.Context(), q)
		require.NoError(t, err)
		expected := want[min(at, len(want)):min(at+limit, len(want))]
		require.Equal(t, slices.Clone(expected), fixture.IDs(page), "%+v", q)
		require.Equal(t, at+limit < len(want), page.Next != "", "there is more exactly if a cursor is given: %+v", q)
		require.Equal(t, at > 0, page.Prev != "")
		pages, last = append(pages, fixture.IDs(page)), page
		if page.Next == "" {
			break
		}
		q.Cursor = page.Next
	}
	for i := len(pages) - 2; i >= 0; i-- {
		q.Cursor = last.Prev
		page, err := s.ListRuns(t.Context(), q)
		require.NoError(t, err)
		require.Equal(t, pages[i], fixture.IDs(page))
		require.NotEmpty(t, page.Next)
		require.Equal(t, i > 0, page.Prev != "")
		last = page
	}
}

func listGroups() []string {
	return []string{
		"/p/feature", "/p/feature/x", "/p/feature/x/y", "/p/feature02", "/p/feature02/x", "/p/feature-x", "/p/fea%re", "/p/fea_ure", "/q/feature",
	}
}

// listed creates runs of all kinds, some at given times.
func listed(t *testing.T, s records.Store, random *rand.Rand) []run.Run {
	t.Helper()
	var all []run.Run
	for range 90 {
		spec := fixture.OneTask(pick(random, listGroups()))
		spec.ChangeGroups = some(random, []string{"g", "h"}, 1)
		spec.Annotations = map[string]string{"a": pick(random, []string{"1", "2", "3"}), "b": pick(random, []string{"1", "2"})}
		if random.IntN(10) == 0 {
			spec.SetupErrors = []string{"broken"}
		}
		spec.Name = pick(random, []string{"build", "deploy"})
		spec.Inputs = map[string]run.Input{"target": {}, "count": {Type: run.InputNumber}}
		spec.InputValues = map[string]string{"target": pick(random, []string{"prod", "test", ""}), "count": pick(random, []string{"1", "2"})}
		spec.Tasks["build"].AllowFailure = random.IntN(2) == 0
		n := fixture.NewRun(t, spec)
		n.Actor = pick(random, []string{"", "ann", "schedule:nightly"})
		n.Time = time.Date(2024, 1, 1, 0, random.IntN(30), 0, random.IntN(2_000_000), time.UTC)
		r, err := s.CreateRun(t.Context(), n)
		require.NoError(t, err)
		switch {
		case r.Phase.Final():
		case random.IntN(6) == 0:
			require.NoError(t, s.CancelRun(t.Context(), r.ID, nil))
		case random.IntN(2) == 0:
			fixture.Begin(t, s, r.ID)
			switch random.IntN(6) {
			case 0: // it runs, and has no result
			case 1:
				fixture.Apply(t, s, r.ID, records.Changes{Result: run.ResultFailed})
			default:
				result := pick(random, []run.Result{run.ResultSuccess, run.ResultFailed, run.ResultStopped})
				status := run.StatusSuccess
				if spec.Tasks["build"].AllowFailure || result == run.ResultFailed {
					status = pick(random, []run.Status{run.StatusSuccess, run.StatusFailed})
				}
				fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Ended(0, 1, 1, status)}, Result: result, Finish: true})
			}
		}
		r, err = s.GetSummary(t.Context(), r.ID)
		require.NoError(t, err)
		all = append(all, r)
	}
	return all
}

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

// some picks up to n values, mostly none.
func some[T any](random *rand.Rand, from []T, n int) []T {
	if random.IntN(3) > 0 {
		return nil
	}
	var out []T
	for range 1 + random.IntN(n) {
		out = append(out, pick(random, from))
	}
	return out
}

func randomQuery(random *rand.Rand, all []run.Run) run.ListQuery {
	q := run.ListQuery{
		Phases:    some(random, run.Phases(), 3),
		Results:   some(random, run.Results(), 3),
		Groups:    some(random, append(listGroups(), "/p", "/q", "/p/feature/", "/missing", "/"), 3),
		Limit:     pick(random, []int{0, 1, 3, 10, 100}),
		Ascending: random.IntN(2) == 0,
	}
	for range random.IntN(3) {
		q.Annotations = append(q.Annotations, run.Annotation{Key: pick(random, []string{"a", "b"}), Value: pick(random, []string{"1", "2", "3"})})
	}
	for range max(0, random.IntN(4)-1) {
		q.Inputs = append(q.Inputs, run.InputValue{Name: pick(random, []string{"target", "count"}), Value: pick(random, []string{"prod", "test", "", "1"})})
	}
	q.Warnings = random.IntN(4) == 0
	q.ChangeGroups = some(random, []string{"g", "h", "none"}, 2)
	q.Names = some(random, []string{"build", "deploy", "buil", ""}, 3)
	q.CreatedBy = some(random, []string{"", "ann", "schedule:nightly", "an"}, 3)
	if random.IntN(4) == 0 {
		q.CreatedAfter = pick(random, all).CreatedAt
	}
	if random.IntN(4) == 0 {
		q.CreatedBefore = pick(random, all).CreatedAt
	}
	return q
}

// matches is the simplest implementation of the query.
func matches(q run.ListQuery, r run.Run) bool {
	inGroup := func(path string) bool {
		path = strings.TrimRight(path, "/")
		return r.Group == path || strings.HasPrefix(r.Group, path+"/")
	}
	values, inputs := make(map[string][]string), make(map[string][]string)
	for _, a := range q.Annotations {
		values[a.Key] = append(values[a.Key], a.Value)
	}
	for key, alternatives := range values {
		if !slices.Contains(alternatives, r.Annotations[key]) {
			return false
		}
	}
	for _, in := range q.Inputs {
		inputs[in.Name] = append(inputs[in.Name], in.Value)
	}
	for name, alternatives := range inputs {
		if !slices.Contains(alternatives, fmt.Sprint(r.InputValues[name])) {
			return false
		}
	}
	withWarnings := r.Phase == run.PhaseFinished && r.Result == run.ResultSuccess && r.TaskCounts[run.StatusFailed] > 0
	return (!q.Warnings || withWarnings) &&
		(len(q.Phases) == 0 || slices.Contains(q.Phases, r.Phase)) &&
		(len(q.Results) == 0 || slices.Contains(q.Results, r.Result)) &&
		(len(q.ChangeGroups) == 0 || slices.ContainsFunc(q.ChangeGroups, func(g string) bool { return slices.Contains(r.ChangeGroups, g) })) &&
		(len(q.Groups) == 0 || slices.ContainsFunc(q.Groups, inGroup)) &&
		(len(q.Names) == 0 || slices.Contains(q.Names, r.Name)) &&
		(len(q.CreatedBy) == 0 || slices.Contains(q.CreatedBy, r.CreatedBy)) &&
		(q.CreatedAfter.IsZero() || r.CreatedAt.After(q.CreatedAfter)) &&
		(q.CreatedBefore.IsZero() || r.CreatedAt.Before(q.CreatedBefore))
}

func testListGroups(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for _, group := range listGroups() {
		fixture.Create(t, s, fixture.OneTask(group))
	}
	for query, want := range map[string][]string{
		"/p/feature":   {"/p/feature", "/p/feature/x", "/p/feature/x/y"},
		"/p/feature/":  {"/p/feature", "/p/feature/x", "/p/feature/x/y"},
		"/p/feature/x": {"/p/feature/x", "/p/feature/x/y"},
		"/p/fea%re":    {"/p/fea%re"},
		"/p/fea_ure":   {"/p/fea_ure"},
		"/p/feat":      nil,
		"/q":           {"/q/feature"},
		"p/feature":    nil,
	} {
		page, err := s.ListRuns(t.Context(), run.ListQuery{Groups: []string{query}, Ascending: true})
		require.NoError(t, err)
		var got []string
		for _, r := range page.Runs {
			got = append(got, r.Group)
		}
		slices.Sort(got)
		require.Equal(t, want, got, query)
	}
}

func testListStable(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	var want []run.ID
	for range 9 {
		want = append(want, fixture.Create(t, s, fixture.OneTask("/a/b")).ID)
	}
	slices.Reverse(want)
	q := run.ListQuery{Limit: 3}
	var got []run.ID
	for i := range 3 {
		page, err := s.ListRuns(t.Context(), q)
		require.NoError(t, err)
		got = append(got, fixture.IDs(page)...)
		fixture.Create(t, s, fixture.OneTask("/a/b")) // comes before the first page
		q.Cursor = page.Next
		if i == 0 {
			require.Empty(t, page.Prev)
		}
	}
	require.Equal(t, want, got)
	require.Empty(t, q.Cursor)
}

func testListCursors(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for range 3 {
		fixture.Create(t, s, fixture.OneTask("/a/b"))
	}
	page, err := s.ListRuns(t.Context(), run.ListQuery{Limit: 1})
	require.NoError(t, err)
	for name, q := range map[string]run.ListQuery{
		"unreadable":    {Cursor: "x!"},
		"no JSON":       {Cursor: "eHg"},
		"other filters": {Cursor: page.Next, Groups: []string{"/a"}},
		"other order":   {Cursor: page.Next, Ascending: true},
		"cut off":       {Cursor: page.Next[:len(page.Next)-3]},
	} {
		_, err := s.ListRuns(t.Context(), q)
		fixture.RequireCode(t, run.CodeInvalid, err)
		require.ErrorContains(t, err, "cursor", name)
	}
	_, err = s.ListRuns(t.Context(), run.ListQuery{Cursor: page.Next, Limit: 2})
	require.NoError(t, err, "the size of a page may change")
}

// testListSeveralConditions lists with conditions of which each has more runs than one
// read compares with the others.
func testListSeveralConditions(t *testing.T, d *fixture.Database) {
	const many, atOnce = 2_000, 20
	s := d.Store(t)
	create := func(group, annotation string) run.ID {
		spec := fixture.OneTask(group)
		spec.Annotations = map[string]string{"a": annotation}
		return fixture.Create(t, s, spec).ID
	}
	others := func(group, annotation string) {
		spec := fixture.OneTask(group)
		spec.Annotations = map[string]string{"a": annotation}
		n := fixture.NewRun(t, spec)
		require.Equal(t, atOnce, fixture.Race(t, atOnce, func(int) error {
			for range many / atOnce {
				if _, err := s.CreateRun(t.Context(), n); err != nil {
					return err
				}
			}
			return nil
		}, ""))
	}
	want := []run.ID{create("/p/own", "1")}
	others("/p/own", "2")
	want = append(want, create("/p/own", "1"))
	others("/p/other", "1")
	want = append(want, create("/p/own", "1"))

	for _, ascending := range []bool{true, false} {
		q := run.ListQuery{Groups: []string{"/p/own"}, Annotations: []run.Annotation{{Key: "a", Value: "1"}}, Ascending: ascending}
		read := func(next func(run.Page) string) (ids []run.ID, reads int) {
			for {
				page, err := s.ListRuns(t.Context(), q)
				require.NoError(t, err)
				reads++
				if next(page) == page.Next {
					ids = append(ids, fixture.IDs(page)...)
				} else {
					ids = append(fixture.IDs(page), ids...)
				}
				if next(page) == "" {
					return ids, reads
				}
				q.Cursor = next(page)
			}
		}
		forwards, reads := read(func(p run.Page) string { return p.Next })
		require.Equal(t, want, forwards)
		require.Greater(t, reads, 1)
		require.Less(t, reads, 5)
		backwards, reads := read(func(p run.Page) string { return p.Prev })
		require.Equal(t, want, backwards)
		require.Greater(t, reads, 1)
		require.Less(t, reads, 6)
		slices.Reverse(want)
	}
}

// testListManyGroups queries more groups than one union has selects.
func testListManyGroups(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	first, second := fixture.Create(t, s, fixture.OneTask("/a/1")), fixture.Create(t, s, fixture.OneTask("/a/2/x"))
	fixture.Create(t, s, fixture.OneTask("/a/other"))
	fixture.Begin(t, s, first.ID)
	fixture.Apply(t, s, first.ID, records.Changes{Result: run.ResultFailed})
	var q run.ListQuery
	for i := range 100 {
		q.Groups = append(q.Groups, fmt.Sprintf("/a/%d", i))
	}
	page, err := s.ListRuns(t.Context(), q)
	require.NoError(t, err)
	require.ElementsMatch(t, []run.ID{second.ID, first.ID}, fixture.IDs(page))
	q.Results = []run.Result{run.ResultFailed}
	page, err = s.ListRuns(t.Context(), q)
	require.NoError(t, err)
	require.Equal(t, []run.ID{first.ID}, fixture.IDs(page))
	q.Groups = append(q.Groups, "/a/100")
	_, err = s.ListRuns(t.Context(), q)
	fixture.RequireCode(t, run.CodeInvalid, err)
	require.ErrorContains(t, err, "100")
}

func testListAnnotations(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for i := range 6 {
		spec := fixture.OneTask("/a/b")
		spec.Annotations = map[string]string{"n": fmt.Sprint(i), "even": fmt.Sprint(i%2 == 0)}
		fixture.Create(t, s, spec)
	}
	for want, annotations := range map[int][]run.Annotation{
		1: {{Key: "n", Value: "3"}},
		2: {{Key: "n", Value: "3"}, {Key: "n", Value: "4"}},
		0: {{Key: "n", Value: "3"}, {Key: "even", Value: "true"}},
		3: {{Key: "even", Value: "true"}},
	} {
		page, err := s.ListRuns(t.Context(), run.ListQuery{Annotations: annotations})
		require.NoError(t, err)
		require.Len(t, page.Runs, want, annotations)
	}
}

func testListSummaries(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	r := fixture.Create(t, s, rich())
	fixture.Begin(t, s, r.ID)
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{fixture.Queued(0, 1, 1)}})
	page, err := s.ListRuns(t.Context(), run.ListQuery{})
	require.NoError(t, err)
	require.Len(t, page.Runs, 1)
	summary, err := s.GetSummary(t.Context(), r.ID)
	require.NoError(t, err)
	require.Equal(t, summary, page.Runs[0])
	require.Equal(t, map[run.Status]int{run.StatusNotStarted: 2, run.StatusQueued: 1}, summary.TaskCounts)
	require.Nil(t, summary.Tasks)
}
