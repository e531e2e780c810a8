package recordstest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

// withInputs returns the specification of a run whose inputs have values.
func withInputs(group string, values map[string]string) *run.Spec {
	of := fixture.OneTask(group)
	of.Inputs, of.InputValues = make(map[string]run.Input), values
	for name := range values {
		of.Inputs[name] = run.Input{}
	}
	return of
}

// found returns the runs that a query selects, oldest first.
func found(t *testing.T, s records.Store, q run.ListQuery) []run.ID {
	t.Helper()
	q.Ascending = true
	page, err := s.ListRuns(t.Context(), q)
	require.NoError(t, err)
	return fixture.IDs(page)
}

func ofInput(name, value string) run.ListQuery {
	return run.ListQuery{Inputs: []run.InputValue{{Name: name, Value: value}}}
}

func testListInputs(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	longest := strings.Repeat("x", run.MaxInputFilter)
	odd := "a=b \"c\" 'd' \\ \t\u00e4 \U0001F680 <&>"
	first := fixture.Create(t, s, withInputs("/a/b", map[string]string{"target": "prod", "text": longest, "empty": ""}))
	second := fixture.Create(t, s, withInputs("/a/c", map[string]string{"target": "test", "text": longest + "x", "odd": odd}))
	secret := withInputs("/a/b", map[string]string{"other": "prod"})
	secret.Secrets = map[string]run.Secret{"target": "prod"}
	secret.Environment = map[string]string{"target": "prod"}
	secret.Annotations = map[string]string{"target": "prod"}
	third := fixture.Create(t, s, secret)

	require.Equal(t, []run.ID{first.ID}, found(t, s, ofInput("target", "prod")), "no secret, no variable and no annotation")
	require.Equal(t, []run.ID{third.ID}, found(t, s, ofInput("other", "prod")))
	require.Equal(t, []run.ID{second.ID}, found(t, s, ofInput("odd", odd)))
	require.Equal(t, []run.ID{first.ID}, found(t, s, ofInput("empty", "")))
	require.Equal(t, []run.ID{first.ID}, found(t, s, ofInput("text", longest)))
	require.Empty(t, found(t, s, ofInput("text", longest+"x")), "values that are longer are not indexed")
	require.Empty(t, found(t, s, ofInput("target", "pro")))
	require.Empty(t, found(t, s, ofInput("Target", "prod")))

	both := ofInput("target", "prod")
	both.Inputs = append(both.Inputs, run.InputValue{Name: "target", Value: "test"}, run.InputValue{Name: "target", Value: "prod"})
	require.Equal(t, []run.ID{first.ID, second.ID}, found(t, s, both), "values of one input are alternatives")
	both.Groups = []string{"/a/c"}
	require.Equal(t, []run.ID{second.ID}, found(t, s, both))
	all := ofInput("target", "prod")
	all.Inputs = append(all.Inputs, run.InputValue{Name: "empty", Value: ""})
	require.Equal(t, []run.ID{first.ID}, found(t, s, all))
	all.Inputs[1].Value = "x"
	require.Empty(t, found(t, s, all), "all inputs must match")
	all.Inputs = slices.Repeat(all.Inputs, 51)
	_, err := s.ListRuns(t.Context(), all)
	fixture.RequireCode(t, run.CodeInvalid, err)

	require.NoError(t, s.CancelRun(t.Context(), first.ID, nil))
	require.NoError(t, s.DeleteRun(t.Context(), first.ID))
	require.Empty(t, found(t, s, ofInput("target", "prod")))
	require.Empty(t, found(t, s, ofInput("empty", "")))
}

// finish ends a run whose task has ended with a status.
func finish(t *testing.T, s records.Store, of *run.Spec, status run.Status, result run.Result) run.ID {
	t.Helper()
	id := fixture.Create(t, s, of).ID
	fixture.Begin(t, s, id)
	fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{fixture.Ended(0, 1, 1, status)}, Result: result, Finish: true})
	return id
}

// mayFail returns the specification of a run whose task may fail.
func mayFail(group string) *run.Spec {
	of := fixture.OneTask(group)
	of.Tasks["build"].AllowFailure = true
	return of
}

func testListWarnings(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	warned := finish(t, s, mayFail("/a/b"), run.StatusFailed, run.ResultSuccess)
	finish(t, s, mayFail("/a/b"), run.StatusSuccess, run.ResultSuccess)
	finish(t, s, mayFail("/a/b"), run.StatusFailed, run.ResultFailed)
	finish(t, s, mayFail("/a/b"), run.StatusFailed, run.ResultStopped)
	open := fixture.Create(t, s, mayFail("/a/c")).ID
	fixture.Begin(t, s, open)
	fixture.Apply(t, s, open, records.Changes{Tasks: []run.TaskChange{fixture.Ended(0, 1, 1, run.StatusFailed)}, Result: run.ResultSuccess})

	all := run.ListQuery{Warnings: true}
	require.Equal(t, []run.ID{warned}, found(t, s, all), "a run that is still running has no final result")
	fixture.Apply(t, s, open, records.Changes{Finish: true, Result: run.ResultSuccess})
	require.Equal(t, []run.ID{warned, open}, found(t, s, all))
	for name, tt := range map[string]struct {
		q    run.ListQuery
		want []run.ID
	}{
		"group":         {run.ListQuery{Groups: []string{"/a/c"}}, []run.ID{open}},
		"groups":        {run.ListQuery{Groups: []string{"/a/c", "/a/b"}}, []run.ID{warned, open}},
		"other group":   {run.ListQuery{Groups: []string{"/b"}}, nil},
		"success":       {run.ListQuery{Results: []run.Result{run.ResultFailed, run.ResultSuccess}}, []run.ID{warned, open}},
		"failed":        {run.ListQuery{Results: []run.Result{run.ResultFailed}}, nil},
		"finished":      {run.ListQuery{Phases: []run.Phase{run.PhaseFinished}, Groups: []string{"/a"}}, []run.ID{warned, open}},
		"running":       {run.ListQuery{Phases: []run.Phase{run.PhaseRunning}, Groups: []string{"/a"}}, nil},
		"name":          {run.ListQuery{Names: []string{"one"}}, []run.ID{warned, open}},
		"other name":    {run.ListQuery{Names: []string{"two"}}, nil},
		"no annotation": {run.ListQuery{Annotations: []run.Annotation{{Key: "a", Value: "b"}}}, nil},
	} {
		tt.q.Warnings = true
		require.Equal(t, tt.want, found(t, s, tt.q), name)
	}

	// A restart keeps the failed task, and ends with the warning again.
	again := fixture.NewRun(t, mayFail("/a/d"))
	again.Restart = &records.Restart{From: warned, Kept: map[int]int{0: 0}}
	r, err := s.CreateRun(t.Context(), again)
	require.NoError(t, err)
	require.Equal(t, []run.ID{warned, open}, found(t, s, all))
	fixture.Begin(t, s, r.ID)
	fixture.Apply(t, s, r.ID, records.Changes{Result: run.ResultSuccess, Finish: true})
	require.Equal(t, []run.ID{warned, open, r.ID}, found(t, s, all))

	require.NoError(t, s.DeleteRun(t.Context(), open))
	require.Equal(t, []run.ID{warned, r.ID}, found(t, s, all))
}

// RunFound checks which runs of an earlier version, without the tables of migration 28, are
// found by warnings and by inputs. open opens a store on one database, and exec executes a
// statement in it, with $1 and so on for the arguments.
func RunFound(t *testing.T, open func() records.Store, exec func(ctx context.Context, statement string, args ...any) error) {
	t.Helper()
	s := open()
	warned := finish(t, s, mayFail("/a/b"), run.StatusFailed, run.ResultSuccess)
	finish(t, s, mayFail("/a/b"), run.StatusSuccess, run.ResultSuccess)
	odd, longest := "a=\"b\" \\ 'c' \u00e4 <&>", strings.Repeat("\u00e4", run.MaxInputFilter/2)
	of := withInputs("/a/b", map[string]string{"target": "prod", "odd \"name\" ä": odd, "text": longest, "long": longest + "x"})
	of.Environment = map[string]string{"input_values": `{"target": "other"}`}
	input := fixture.Create(t, s, of).ID
	plain := fixture.OneTask("/a/b")
	plain.Environment = map[string]string{"X": `"input_values":{"target":"prod"}`}
	fixture.Create(t, s, plain)
	want := map[string]run.ListQuery{
		"warnings": {Warnings: true}, "target": ofInput("target", "prod"), "odd": ofInput("odd \"name\" ä", odd), "text": ofInput("text", longest),
	}
	requireFound := func(s records.Store) {
		t.Helper()
		for name, q := range want {
			id := input
			if q.Warnings {
				id = warned
			}
			require.Equal(t, []run.ID{id}, found(t, s, q), name)
		}
		require.Empty(t, found(t, s, ofInput("long", longest+"x")))
		require.Empty(t, found(t, s, ofInput("target", "other")))
	}
	requireFound(s)

	for _, statement := range []string{
		`DROP TABLE run_warnings`, `DROP TABLE run_inputs`, `DELETE FROM goose_db_version WHERE version_id >= 28`,
	} {
		require.NoError(t, exec(t.Context(), statement))
	}
	s = open()
	requireFound(s)

	// A process of the earlier version deletes a run, and leaves the rows of the index.
	for _, q := range want {
		q.Limit = 1
		page, err := s.ListRuns(t.Context(), q)
		require.NoError(t, err)
		require.Len(t, page.Runs, 1)
		require.Empty(t, page.Next)
	}
	newer := fixture.Create(t, s, withInputs("/a/b", map[string]string{"target": "prod"})).ID
	newest := fixture.Create(t, s, withInputs("/a/b", map[string]string{"target": "prod"})).ID
	warnedToo := finish(t, s, mayFail("/a/b"), run.StatusFailed, run.ResultSuccess)
	lost := finish(t, s, mayFail("/a/b"), run.StatusFailed, run.ResultSuccess)
	for _, id := range []run.ID{newer, lost} {
		require.NoError(t, exec(t.Context(), `DELETE FROM runs WHERE id = $1`, string(id)))
	}
	for name, tt := range map[string]struct {
		q    run.ListQuery
		want []run.ID
	}{
		"inputs":   {ofInput("target", "prod"), []run.ID{newest, input}},
		"warnings": {run.ListQuery{Warnings: true}, []run.ID{warnedToo, warned}},
	} {
		var got []run.ID
		for tt.q.Limit = 1; ; {
			page, err := s.ListRuns(t.Context(), tt.q)
			require.NoError(t, err)
			got = append(got, fixture.IDs(page)...)
			if tt.q.Cursor = page.Next; tt.q.Cursor == "" {
				break
			}
		}
		require.Equal(t, tt.want, got, name)
	}
}
