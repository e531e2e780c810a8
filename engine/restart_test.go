package engine_test

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// ended submits the tasks "a" and "b", which depends on a, and brings a to
// success with a log, and b to a status.
func (b bench) ended(t *testing.T, status run.Status) run.Run {
	t.Helper()
	second := twoSteps()
	second.Depends = []run.Depend{{Task: "a"}}
	r, err := b.Create(t.Context(), run.CreateRequest{Subject: "s", Spec: &run.Spec{
		Name: "n", Group: "/a/b", Tasks: map[string]*run.TaskSpec{"a": twoSteps(), "b": second},
		Environment: map[string]string{"X": "old", "Y": "old"}, Secrets: map[string]run.Secret{"S": "old"},
	}})
	require.NoError(t, err)
	key := b.claim(t, r.ID)
	b.appendFrames(t, key, frame(1, run.FrameStepStart, 0, ""), frame(2, run.FrameOutput, 0, "of a\n"), frame(3, run.FrameTaskEnd, 0, ""))
	result := run.ResultSuccess
	if status != run.StatusSuccess {
		result = run.ResultFailed
	}
	_, _, err = b.store.Apply(t.Context(), r.ID, records.Changes{
		Tasks: []run.TaskChange{
			{Attempt: 1, Dispatch: 1, Status: run.StatusSuccess},
			{Task: 1, Attempt: 1, Dispatch: 1, Status: status},
		}, Result: result, Finish: true,
	})
	require.NoError(t, err)
	r, err = b.Get(t.Context(), r.ID)
	require.NoError(t, err)
	return r
}

func TestRestart_keeps_succeeded_tasks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	old := b.ended(t, run.StatusFailed)
	r, err := b.Restart(t.Context(), run.RestartRequest{
		Run: old.ID, From: run.RestartFailed, Subject: "s", Environment: map[string]string{"X": "new"}, Secrets: map[string]run.Secret{"T": "new"},
	})
	require.NoError(t, err)
	require.Equal(t, old.ID, r.RestartedFrom)
	require.Equal(t, map[string]string{"X": "new", "Y": "old"}, r.Environment)
	require.Equal(t, []string{"S", "T"}, r.SecretNames)
	require.Equal(t, old.Tasks[0], r.Tasks[0])
	require.Equal(t, run.StatusNotStarted, r.Tasks[1].Status)
	require.Equal(t, "of a\n", b.read(t.Context(), t, run.LogQuery{Run: r.ID, Task: "a"}), "its log is that of the old run")
	plan, _, err := b.store.LoadPlan(t.Context(), r.ID, 0)
	require.NoError(t, err)
	require.Equal(t, []byte{run.StatusSuccess.Byte(), run.StatusNotStarted.Byte()}, plan.Kept)
	old, err = b.Get(t.Context(), old.ID)
	require.NoError(t, err)
	require.Equal(t, []run.ID{r.ID}, old.RestartedAs)

	// The log stays as long as any run shows it.
	require.NoError(t, b.Delete(t.Context(), old.ID))
	require.Equal(t, "of a\n", b.read(t.Context(), t, run.LogQuery{Run: r.ID, Task: "a"}))
}

// The allowed failures of a run that succeeded run again from failed, and are kept
// by a restart of other tasks.
func TestRestart_of_a_run_with_warnings(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lint := twoSteps()
	lint.AllowFailure = true
	after := twoSteps()
	after.Depends = []run.Depend{{Task: "lint"}}
	old := b.submit(t, map[string]*run.TaskSpec{"lint": lint, "other": twoSteps(), "publish": after})
	_, _, err := b.store.Apply(t.Context(), old.ID, records.Changes{Tasks: []run.TaskChange{
		{Task: 0, Status: run.StatusFailed},
		{Task: 1, Status: run.StatusSuccess},
		{Task: 2, Status: run.StatusSuccess},
	}, Result: run.ResultSuccess, Finish: true})
	require.NoError(t, err)
	failed, success, again := run.StatusFailed.Byte(), run.StatusSuccess.Byte(), run.StatusNotStarted.Byte()
	for name, tt := range map[string]struct {
		req      run.RestartRequest
		kept     []byte
		warnings int
	}{
		"from failed":    {run.RestartRequest{From: run.RestartFailed}, []byte{again, success, again}, 0},
		"another task":   {run.RestartRequest{Tasks: []string{"other"}}, []byte{failed, again, success}, 1},
		"of a dependent": {run.RestartRequest{Tasks: []string{"publish"}}, []byte{failed, success, again}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			tt.req.Run = old.ID
			r, err := b.Restart(t.Context(), tt.req)
			require.NoError(t, err)
			plan, _, err := b.store.LoadPlan(t.Context(), r.ID, 0)
			require.NoError(t, err)
			require.Equal(t, tt.kept, plan.Kept)
			require.True(t, plan.Nodes[0].AllowFailure)
			require.Len(t, r.Warnings(), tt.warnings)
		})
	}
}

func TestRestart_from_the_start_keeps_nothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	old := b.ended(t, run.StatusSuccess)
	r, err := b.Restart(t.Context(), run.RestartRequest{Run: old.ID, From: run.RestartStart})
	require.NoError(t, err)
	require.Equal(t, map[run.Status]int{run.StatusNotStarted: 2}, r.TaskCounts)
	require.NotEqual(t, old.ID, r.ID)
	require.Greater(t, r.Counter, old.Counter)
}

func TestRestart_happens_once_for_a_key(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	old := b.ended(t, run.StatusFailed)
	req := run.RestartRequest{Run: old.ID, From: run.RestartFailed, Subject: "s", IdempotencyKey: "k"}
	first, err := b.Restart(t.Context(), req)
	require.NoError(t, err)
	second, err := b.Restart(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, first.ID, second.ID)
	require.True(t, second.Replayed)
	req.From = run.RestartStart
	_, err = b.Restart(t.Context(), req)
	require.Equal(t, run.CodeIdempotencyMismatch, run.CodeOf(err), "%v", err)
	old, err = b.Get(t.Context(), old.ID)
	require.NoError(t, err)
	require.Len(t, old.RestartedAs, 1)
}

func TestRestart_refuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	open := b.submit(t, map[string]*run.TaskSpec{"t": twoSteps()})
	good, bad := b.ended(t, run.StatusSuccess), b.ended(t, run.StatusFailed)
	broken, err := b.Create(t.Context(), run.CreateRequest{Spec: &run.Spec{
		Name: "n", Group: "/a/b", SetupErrors: []string{"no"}, Tasks: map[string]*run.TaskSpec{"t": twoSteps()},
	}})
	require.NoError(t, err)
	tests := map[string]struct {
		req  run.RestartRequest
		want run.Code
	}{
		"an unknown run":           {run.RestartRequest{Run: "01jd0000000000000000000000", From: run.RestartStart}, run.CodeNotFound},
		"one that is open":         {run.RestartRequest{Run: open.ID, From: run.RestartStart}, run.CodeWrongPhase},
		"one that was not set up":  {run.RestartRequest{Run: broken.ID, From: run.RestartStart}, run.CodeWrongPhase},
		"a success, from failures": {run.RestartRequest{Run: good.ID, From: run.RestartFailed}, run.CodeWrongPhase},
		"neither":                  {run.RestartRequest{Run: bad.ID}, run.CodeInvalid},
		"both":                     {run.RestartRequest{Run: bad.ID, From: run.RestartFailed, Tasks: []string{"a"}}, run.CodeInvalid},
		"an unknown place":         {run.RestartRequest{Run: bad.ID, From: "middle"}, run.CodeInvalid},
		"an unknown task":          {run.RestartRequest{Run: bad.ID, Tasks: []string{"c"}}, run.CodeInvalid},
		"a faulty environment":     {run.RestartRequest{Run: bad.ID, From: run.RestartStart, Subject: "s", Environment: map[string]string{"A=B": "x"}}, run.CodeInvalid},
		"an old token":             {run.RestartRequest{Run: bad.ID, From: run.RestartStart, Token: run.Token{"g": 7}}, run.CodeChangeGroupConflict},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := b.Restart(t.Context(), tt.req)
			require.Equal(t, tt.want, run.CodeOf(err), "%v", err)
		})
	}
	bad, err = b.Get(t.Context(), bad.ID)
	require.NoError(t, err)
	require.Empty(t, bad.RestartedAs)
}

// A changed specification gets the values of secrets only from the subject who gave
// them: its steps could show them.
func TestRestart_changed_specification(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	old := b.ended(t, run.StatusFailed)
	changed := func() *run.Spec {
		spec, err := b.Spec(t.Context(), old.ID)
		require.NoError(t, err)
		require.Equal(t, run.HiddenSecret, spec.Secrets["S"])
		spec.Tasks["c"] = twoSteps()
		return spec
	}
	for name, req := range map[string]run.RestartRequest{
		"another subject":              {From: run.RestartStart, Subject: "other"},
		"from the failure, by another": {From: run.RestartFailed, Subject: "other"},
	} {
		req.Run, req.Spec = old.ID, changed()
		_, err := b.Restart(t.Context(), req)
		require.Equal(t, run.CodeInvalid, run.CodeOf(err), name)
	}
	secretOf := func(id run.ID) run.Secret {
		source, err := b.store.RestartSource(t.Context(), id)
		require.NoError(t, err)
		return source.Spec.Secrets["S"]
	}
	r, err := b.Restart(t.Context(), run.RestartRequest{Run: old.ID, From: run.RestartStart, Subject: "s", Spec: changed()})
	require.NoError(t, err)
	require.Len(t, r.Tasks, 3)
	require.Equal(t, old.ID, r.RestartedFrom)
	require.Equal(t, run.Secret("old"), secretOf(r.ID))
	r, err = b.Restart(t.Context(), run.RestartRequest{
		Run: old.ID, From: run.RestartStart, Subject: "other", Spec: changed(), Secrets: map[string]run.Secret{"S": "mine"},
	})
	require.NoError(t, err)
	require.Equal(t, run.Secret("mine"), secretOf(r.ID))
	// A restart by another subject does not make the secret its own.
	r, err = b.Restart(t.Context(), run.RestartRequest{Run: old.ID, From: run.RestartStart, Subject: "other"})
	require.NoError(t, err)
	source, err := b.store.RestartSource(t.Context(), r.ID)
	require.NoError(t, err)
	require.Equal(t, "other", source.Run.CreatedBy)
	require.Equal(t, "s", source.SecretsBy)
}

// TestRestart_changed_specification_from_failed keeps what the specification does not change, and
// says beforehand what that is.
func TestRestart_changed_specification_from_failed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	failed, succeeded := b.ended(t, run.StatusFailed), b.ended(t, run.StatusSuccess)
	tests := map[string]struct {
		of     run.ID
		change func(s *run.Spec)
		req    run.RestartRequest
		want   []run.RestartTask
		code   run.Code
	}{
		"what failed": {
			of: failed.ID, change: func(s *run.Spec) { s.Tasks["b"].Steps[0].Run = "true" },
			want: []run.RestartTask{{Name: "a", Kept: true}, {Name: "b", Reason: run.RestartChanged, Detail: "tasks.b.steps[0].run"}},
		},
		"nothing, so what failed runs": {
			of: failed.ID, change: func(*run.Spec) {},
			want: []run.RestartTask{{Name: "a", Kept: true}, {Name: "b", Reason: run.RestartTaskFailed}},
		},
		"another task more, before those that stay": {
			of: failed.ID, change: func(s *run.Spec) { s.Tasks["0"] = twoSteps() },
			want: []run.RestartTask{{Name: "0", Reason: run.RestartNew}, {Name: "a", Kept: true}, {Name: "b", Reason: run.RestartTaskFailed}},
		},
		"what succeeded": {
			of: failed.ID, change: func(s *run.Spec) { s.Tasks["a"].Timeout = run.Duration(time.Hour) },
			want: []run.RestartTask{{Name: "a", Reason: run.RestartChanged, Detail: "tasks.a.timeout"}, {Name: "b", Reason: run.RestartTaskFailed}},
		},
		"a task of a run that succeeded": {
			of: succeeded.ID, change: func(s *run.Spec) { s.Tasks["b"].Timeout = run.Duration(time.Hour) },
			want: []run.RestartTask{{Name: "a", Kept: true}, {Name: "b", Reason: run.RestartChanged, Detail: "tasks.b.timeout"}},
		},
		"nothing of a run that succeeded": {of: succeeded.ID, change: func(*run.Spec) {}, code: run.CodeWrongPhase},
		"a task less of a run that succeeded": {
			of: succeeded.ID, change: func(s *run.Spec) { delete(s.Tasks, "b") }, code: run.CodeWrongPhase,
		},
		"named tasks, and what is changed": {
			of: succeeded.ID, change: func(s *run.Spec) { s.Tasks["0"] = twoSteps() }, req: run.RestartRequest{Tasks: []string{"b"}},
			want: []run.RestartTask{{Name: "0", Reason: run.RestartNew}, {Name: "a", Kept: true}, {Name: "b", Reason: run.RestartRequested}},
		},
		"from the start": {
			of: failed.ID, change: func(s *run.Spec) { s.Tasks["0"] = twoSteps() }, req: run.RestartRequest{From: run.RestartStart},
			want: []run.RestartTask{{Name: "0", Reason: run.RestartFromStart}, {Name: "a", Reason: run.RestartFromStart}, {Name: "b", Reason: run.RestartFromStart}},
		},
		"a variable that the call gives": {
			of: failed.ID, change: func(*run.Spec) {}, req: run.RestartRequest{From: run.RestartFailed, Environment: map[string]string{"X": "new"}},
			want: []run.RestartTask{{Name: "a", Reason: run.RestartChanged, Detail: "environment.X"}, {Name: "b", Reason: run.RestartChanged, Detail: "environment.X"}},
		},
		"a secret that the call gives": {
			of: failed.ID, change: func(*run.Spec) {}, req: run.RestartRequest{From: run.RestartFailed, Secrets: map[string]run.Secret{"S": "new"}},
			want: []run.RestartTask{{Name: "a", Reason: run.RestartChanged, Detail: "secrets.S"}, {Name: "b", Reason: run.RestartChanged, Detail: "secrets.S"}},
		},
		"the same secret again": {
			of: failed.ID, change: func(*run.Spec) {}, req: run.RestartRequest{From: run.RestartFailed, Secrets: map[string]run.Secret{"S": "old"}},
			want: []run.RestartTask{{Name: "a", Kept: true}, {Name: "b", Reason: run.RestartTaskFailed}},
		},
		"the same secret by another subject, who may not learn that it is": {
			of: failed.ID, change: func(*run.Spec) {}, req: run.RestartRequest{From: run.RestartFailed, Subject: "other", Secrets: map[string]run.Secret{"S": "old"}},
			want: []run.RestartTask{{Name: "a", Reason: run.RestartChanged, Detail: "secrets.S"}, {Name: "b", Reason: run.RestartChanged, Detail: "secrets.S"}},
		},
		"without the secrets of another subject": {
			of: failed.ID, change: func(s *run.Spec) { s.Secrets = nil }, req: run.RestartRequest{From: run.RestartFailed, Subject: "other"},
			want: []run.RestartTask{{Name: "a", Reason: run.RestartChanged, Detail: "secrets.S"}, {Name: "b", Reason: run.RestartChanged, Detail: "secrets.S"}},
		},
		"without the secrets": {
			of: failed.ID, change: func(s *run.Spec) { s.Secrets = nil },
			want: []run.RestartTask{{Name: "a", Reason: run.RestartChanged, Detail: "secrets.S"}, {Name: "b", Reason: run.RestartChanged, Detail: "secrets.S"}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			req := tt.req
			if req.From == "" && req.Tasks == nil {
				req.From = run.RestartFailed
			}
			var err error
			req.Run, req.Subject = tt.of, cmp.Or(req.Subject, "s")
			req.Spec, err = b.Spec(t.Context(), tt.of)
			require.NoError(t, err)
			tt.change(req.Spec)
			before, err := b.Get(t.Context(), tt.of)
			require.NoError(t, err)
			got, err := b.PlanRestart(t.Context(), req)
			if tt.code != "" {
				requireCode(t, tt.code, err)
				_, err = b.Restart(t.Context(), req)
				requireCode(t, tt.code, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
			after, err := b.Get(t.Context(), tt.of)
			require.NoError(t, err)
			require.Equal(t, before.RestartedAs, after.RestartedAs, "a plan creates nothing")

			r, err := b.Restart(t.Context(), req)
			require.NoError(t, err)
			require.Len(t, r.Tasks, len(tt.want))
			plan, _, err := b.store.LoadPlan(t.Context(), r.ID, 0)
			require.NoError(t, err)
			for i, want := range tt.want {
				require.Equal(t, want.Name, r.Tasks[i].Name)
				require.Equal(t, want.Kept, r.Tasks[i].Status.Final(), want.Name)
				require.Equal(t, want.Kept, len(plan.Kept) > 0 && plan.Kept[i] == run.StatusSuccess.Byte())
				if want.Kept {
					require.Equal(t, "of a\n", b.read(t.Context(), t, run.LogQuery{Run: r.ID, Task: want.Name}))
				}
			}
		})
	}
}

// The steps of a run are the same in a restart, but its environment and its inputs decide
// what they do, and which image and pool get the secrets.
func TestRestart_changed_values(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	old := b.ended(t, run.StatusFailed)
	for name, req := range map[string]run.RestartRequest{
		"environment, by another": {Subject: "other", Environment: map[string]string{"BASH_ENV": "$(env | rev >&2)"}},
		"without a subject":       {Environment: map[string]string{"PATH": "/x"}},
		"another secret only":     {Subject: "other", Secrets: map[string]run.Secret{"BASH_ENV": "$(env | rev >&2)"}},
		"single tasks":            {Subject: "other", Environment: map[string]string{"PATH": "/x"}, Tasks: []string{"a"}},
	} {
		req.Run = old.ID
		if len(req.Tasks) == 0 {
			req.From = run.RestartStart
		}
		_, err := b.Restart(t.Context(), req)
		var refusal *run.Error
		require.ErrorAs(t, err, &refusal, name)
		require.Equal(t, run.CodeInvalid, refusal.Code, name)
		require.Equal(t, []run.Fault{{
			Path: "secrets.S", Code: run.FaultRequired,
			Detail: "another subject gave its value, which another environment, input or secret could show: give the value again",
		}}, refusal.Faults, name)
	}
	for name, req := range map[string]run.RestartRequest{
		"by the same subject": {Subject: "s", Environment: map[string]string{"PATH": "/x"}},
		"with the value":      {Subject: "other", Environment: map[string]string{"PATH": "/x"}, Secrets: map[string]run.Secret{"S": "mine"}},
		"without a change":    {Subject: "other"},
	} {
		req.Run, req.From = old.ID, run.RestartStart
		_, err := b.Restart(t.Context(), req)
		require.NoError(t, err, name)
	}

	// Of two secrets, the call must give both.
	two, err := b.Create(t.Context(), run.CreateRequest{Subject: "s", Spec: &run.Spec{
		Name: "n", Group: "/a/b", Tasks: map[string]*run.TaskSpec{"a": twoSteps()}, Secrets: map[string]run.Secret{"HOST": "old", "S": "old"},
	}})
	require.NoError(t, err)
	_, err = b.Cancel(t.Context(), two.ID, nil)
	require.NoError(t, err)
	_, err = b.Restart(t.Context(), run.RestartRequest{Run: two.ID, From: run.RestartStart, Subject: "other", Secrets: map[string]run.Secret{"HOST": "elsewhere"}})
	requireCode(t, run.CodeInvalid, err)
	require.ErrorContains(t, err, "secrets of another subject")
}
