package recordstest

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
)

func approvalTests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"Reject":            testReject,
		"Reject/or_approve": testRejectOrApprove,
		"Reject/foreach":    testRejectForeach,
		"From":              testApproveFrom,
		"Expire":            testExpireApprovals,
		"List":              testListApprovals,
		"List/of_others":    testApprovalsOfOthers,
		"Actors":            testActors,
		"RunSpec":           testRunSpec,
	}
}

// waiting creates a run whose task build waits for approval.
func waiting(t *testing.T, s records.Store, group string, approval run.Approval) run.ID {
	t.Helper()
	spec := fixture.OneTask(group)
	spec.Tasks["build"].Approval = approval
	r := fixture.Create(t, s, spec)
	fixture.Begin(t, s, r.ID)
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{{Task: 0, Status: run.StatusWaitingApproval}}})
	fixture.Drain(t, s)
	return r.ID
}

func testReject(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	id := waiting(t, s, "/a/b", run.Approval{Approvers: 2})
	require.NoError(t, s.ApproveTask(ctx, id, "build", "ann", nil))
	version := fixture.Get(t, s, id).Version
	fixture.RequireCode(t, run.CodeNotFound, s.RejectTask(ctx, id, "other", "bob", "no", nil))
	require.NoError(t, s.RejectTask(ctx, id, "build", "bob", "not during the freeze", nil))
	got := fixture.Get(t, s, id)
	require.Greater(t, got.Version, version)
	require.Equal(t, run.StatusFailed, got.Tasks[0].Status)
	require.Equal(t, "rejected by bob: not during the freeze", got.Tasks[0].Reason)
	require.Equal(t, "bob", got.Tasks[0].RejectedBy)
	require.False(t, got.Tasks[0].EndedAt.IsZero())
	require.Equal(t, map[run.Status]int{run.StatusFailed: 1}, got.TaskCounts)
	require.Equal(t, []records.OutboxKind{records.OutboxApprove}, fixture.Drain(t, s))
	for _, err := range []error{
		s.ApproveTask(ctx, id, "build", "cyd", nil), s.RejectTask(ctx, id, "build", "cyd", "again", nil),
	} {
		fixture.RequireCode(t, run.CodeNotWaitingApproval, err)
	}
	// The workflow tries to queue the task, also one that was reset to before it waited.
	status, tasks := fixture.Apply(t, s, id, records.Changes{Tasks: []run.TaskChange{
		{Task: 0, Status: run.StatusWaitingApproval}, fixture.Queued(0, 1, 1),
	}})
	require.Equal(t, []int{0}, status.Approved, "a workflow that lost the signal reads the decision")
	require.Equal(t, run.StatusFailed, tasks[1].Status)
	fixture.Apply(t, s, id, records.Changes{Result: run.ResultFailed, Finish: true})
	require.Empty(t, list(t, s, run.ApprovalQuery{}))
}

func testRejectOrApprove(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id := waiting(t, s, "/a/b", run.Approval{Approvers: 1})
	wins := fixture.Race(t, 8, func(i int) error {
		subject := "subject-" + strconv.Itoa(i)
		if i%2 == 0 {
			return s.RejectTask(t.Context(), id, "build", subject, "no", nil)
		}
		return s.ApproveTask(t.Context(), id, "build", subject, nil)
	}, run.CodeNotWaitingApproval)
	require.Equal(t, 1, wins)
	require.Equal(t, []records.OutboxKind{records.OutboxApprove}, fixture.Drain(t, s))
	got := fixture.Get(t, s, id)
	require.Len(t, got.Actions, 1)
	require.Equal(t, got.Actions[0].Kind == run.ActionReject, got.Tasks[0].Status == run.StatusFailed)
}

// A rejected task that stands for a list gets no tasks.
func testRejectForeach(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	spec := fixture.OneTask("/a/b")
	spec.Tasks["build"].Foreach.List = `["x", "y"]`
	spec.Tasks["build"].Approval.Approvers = 1
	r := fixture.Create(t, s, spec)
	fixture.Begin(t, s, r.ID)
	fixture.Apply(t, s, r.ID, records.Changes{Tasks: []run.TaskChange{{Task: 0, Status: run.StatusWaitingApproval}}})
	require.NoError(t, s.RejectTask(t.Context(), r.ID, "build", "bob", "no", nil))
	out, err := s.Expand(t.Context(), r.ID, 0)
	require.NoError(t, err)
	require.Equal(t, records.Expanded{Fault: "rejected by bob: no"}, out)
	require.Len(t, fixture.Get(t, s, r.ID).Tasks, 1)
}

func testApproveFrom(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	id := waiting(t, s, "/a/b", run.Approval{Approvers: 2, From: []string{"ann", "bob"}})
	fixture.RequireCode(t, run.CodeForbidden, s.ApproveTask(ctx, id, "build", "eve", nil))
	fixture.RequireCode(t, run.CodeForbidden, s.RejectTask(ctx, id, "build", "eve", "no", nil))
	require.NoError(t, s.ApproveTask(ctx, id, "build", "ann", nil))
	fixture.RequireCode(t, run.CodeNotWaitingApproval, s.ApproveTask(ctx, id, "build", "ann", nil))
	require.Empty(t, fixture.Drain(t, s))
	require.NoError(t, s.ApproveTask(ctx, id, "build", "bob", nil))
	require.Equal(t, []records.OutboxKind{records.OutboxApprove}, fixture.Drain(t, s))
}

func testExpireApprovals(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ctx := t.Context()
	short := run.Approval{Approvers: 2, Timeout: 1}
	late, approved, stopped := waiting(t, s, "/a/b", short), waiting(t, s, "/a/b", short), waiting(t, s, "/a/b", short)
	patient := waiting(t, s, "/a/b", run.Approval{Approvers: 1, Timeout: run.Duration(time.Hour)})
	require.NoError(t, s.ApproveTask(ctx, late, "build", "ann", nil))
	for _, subject := range []string{"ann", "bob"} {
		require.NoError(t, s.ApproveTask(ctx, approved, "build", subject, nil))
	}
	fixture.Apply(t, s, stopped, records.Changes{Tasks: []run.TaskChange{{Task: 0, Status: run.StatusSkipped, Reason: "the run was stopped"}}})
	fixture.Drain(t, s)
	due := fixture.Get(t, s, patient).Tasks[0].ApprovalDue
	require.WithinDuration(t, time.Now().Add(time.Hour), due, time.Minute)
	// A workflow that was reset lets the task wait again, and no longer.
	fixture.Apply(t, s, patient, records.Changes{Tasks: []run.TaskChange{{Task: 0, Status: run.StatusWaitingApproval, Reason: "again"}}})
	require.Equal(t, due, fixture.Get(t, s, patient).Tasks[0].ApprovalDue)

	n, err := s.ExpireApprovals(ctx, 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	got := fixture.Get(t, s, late)
	require.Equal(t, run.StatusFailed, got.Tasks[0].Status)
	require.Equal(t, "the approval timed out after 1ns: 1 of 2 given", got.Tasks[0].Reason)
	require.Empty(t, got.Tasks[0].RejectedBy)
	require.Equal(t, []records.OutboxKind{records.OutboxApprove}, fixture.Drain(t, s))
	require.Equal(t, run.StatusWaitingApproval, fixture.Get(t, s, approved).Tasks[0].Status, "its workflow queues it")
	require.Equal(t, run.StatusSkipped, fixture.Get(t, s, stopped).Tasks[0].Status)
	n, err = s.ExpireApprovals(ctx, 10)
	require.NoError(t, err)
	require.Zero(t, n)
}

func testListApprovals(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	first := waiting(t, s, "/list/b", run.Approval{Approvers: 2, From: []string{"ann", "bob"}, Timeout: run.Duration(time.Hour)})
	second := waiting(t, s, "/list/b/c", run.Approval{Approvers: 1})
	other := waiting(t, s, "/list/bc", run.Approval{Approvers: 1})
	require.NoError(t, s.ApproveTask(t.Context(), first, "build", "ann", nil))
	all := list(t, s, run.ApprovalQuery{Group: "/list"})
	require.Equal(t, []run.ID{first, second, other}, all)
	require.Equal(t, []run.ID{first, second}, list(t, s, run.ApprovalQuery{Group: "/list/b", Limit: 1}), "page by page")
	require.Equal(t, []run.ID{first, second}, list(t, s, run.ApprovalQuery{Within: []string{"/list/b"}}))
	require.Equal(t, []run.ID{second, other}, list(t, s, run.ApprovalQuery{Group: "/list", Within: []string{"/list/b/c", "/list/bc", "/other"}}))
	page, err := s.Approvals(t.Context(), run.ApprovalQuery{Group: "/list/b", Limit: 1})
	require.NoError(t, err)
	w := page.Approvals[0]
	require.Equal(t, "build", w.Task)
	require.Equal(t, []string{"ann"}, w.ApprovedBy)
	require.Equal(t, []string{"ann", "bob"}, w.Approval.From)
	require.Equal(t, time.Hour, w.Due.Sub(w.Since))
	require.NoError(t, s.ApproveTask(t.Context(), second, "build", "ann", nil))
	require.NoError(t, s.RejectTask(t.Context(), other, "build", "ann", "no", nil))
	require.Equal(t, []run.ID{first}, list(t, s, run.ApprovalQuery{Group: "/list"}), "others are decided")
	_, err = s.Approvals(t.Context(), run.ApprovalQuery{After: "x"})
	fixture.RequireCode(t, run.CodeInvalid, err)
}

// testApprovalsOfOthers lists the tasks of some groups that wait for approval, between very
// many of others. No page looks at all of those, and no task is missing in the end.
func testApprovalsOfOthers(t *testing.T, d *fixture.Database) {
	const each = 5_000 // two of these runs have more than a page looks at
	s := d.Store(t)
	others := func() {
		spec := fixture.Wide("/other/x", each)
		spec.Tasks["all"].Approval = run.Approval{Approvers: 1}
		r := fixture.Create(t, s, spec)
		fixture.Begin(t, s, r.ID)
		var tasks []run.TaskChange
		for i := range each {
			tasks = append(tasks, run.TaskChange{Task: i, Status: run.StatusWaitingApproval})
		}
		fixture.Apply(t, s, r.ID, records.Changes{Tasks: tasks})
		fixture.Drain(t, s)
	}
	first := waiting(t, s, "/own/a", run.Approval{Approvers: 1})
	others()
	second := waiting(t, s, "/own/a", run.Approval{Approvers: 1})
	others()
	third := waiting(t, s, "/own/b", run.Approval{Approvers: 1})
	for _, tt := range []struct {
		q    run.ApprovalQuery
		want [][]run.ID // of each page
	}{
		{run.ApprovalQuery{Group: "/own"}, [][]run.ID{{first, second}, {third}}},
		{run.ApprovalQuery{Within: []string{"/own/b", "/own/none"}}, [][]run.ID{nil, {third}}},
		{run.ApprovalQuery{Group: "/own", Within: []string{"/own/a"}, Limit: 2}, [][]run.ID{{first, second}, nil}},
		{run.ApprovalQuery{Group: "/own", Limit: 1}, [][]run.ID{{first}, {second}, {third}, nil}},
		{run.ApprovalQuery{Group: "/none"}, [][]run.ID{nil, nil}},
	} {
		var got [][]run.ID
		for q := tt.q; ; {
			page, err := s.Approvals(t.Context(), q)
			require.NoError(t, err)
			var ids []run.ID
			for _, w := range page.Approvals {
				ids = append(ids, w.Run)
			}
			got = append(got, ids)
			if q.After = page.After; q.After == "" {
				break
			}
		}
		require.Equal(t, tt.want, got, "%+v", tt.q)
	}
	page, err := s.Approvals(t.Context(), run.ApprovalQuery{Limit: 100})
	require.NoError(t, err)
	require.Len(t, page.Approvals, 100)
}

// list returns the runs with a task that waits for approval, from all pages.
func list(t *testing.T, s records.Store, q run.ApprovalQuery) []run.ID {
	t.Helper()
	var ids []run.ID
	for {
		page, err := s.Approvals(t.Context(), q)
		require.NoError(t, err)
		for _, w := range page.Approvals {
			ids = append(ids, w.Run)
		}
		if q.After = page.After; q.After == "" {
			return ids
		}
	}
}

func testActors(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	after, err := s.LastEvent(t.Context())
	require.NoError(t, err)
	n := fixture.NewRun(t, fixture.Manual("/a/b"))
	n.Actor = "ann"
	r, err := s.CreateRun(t.Context(), n)
	require.NoError(t, err)
	require.Equal(t, "ann", r.CreatedBy)
	require.NoError(t, s.StartRun(run.WithActor(t.Context(), "bob"), r.ID, nil))
	require.NoError(t, s.StopRun(run.WithActor(t.Context(), "cyd"), r.ID, nil))
	require.NoError(t, s.StopRun(run.WithActor(t.Context(), "eve"), r.ID, nil), "it is stopped already")
	got := fixture.Get(t, s, r.ID)
	require.Equal(t, "ann", got.CreatedBy)
	var acts []string
	for _, a := range got.Actions {
		require.False(t, a.Time.IsZero())
		acts = append(acts, string(a.Kind)+" "+a.Actor)
	}
	require.Equal(t, []string{"start bob", "stop cyd"}, acts)
	fixture.AwaitEvent(t, s, after+3)
	acts = nil
	for _, e := range fixture.ReadAll(t, s, run.EventQuery{After: after, Run: r.ID}) {
		acts = append(acts, string(e.Phase)+" "+string(e.Action)+" "+e.Actor)
	}
	require.Equal(t, []string{"queued create ann", "running start bob", "running stop cyd"}, acts)

	n = fixture.NewRun(t, fixture.Manual("/a/b"))
	r, err = s.CreateRun(t.Context(), n)
	require.NoError(t, err)
	require.NoError(t, s.CancelRun(run.WithActor(t.Context(), "bob"), r.ID, nil))
	got = fixture.Get(t, s, r.ID)
	require.Empty(t, got.CreatedBy)
	require.Equal(t, run.ActionCancel, got.Actions[0].Kind)
	require.NoError(t, s.DeleteRun(t.Context(), r.ID))
}

func testRunSpec(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	spec := rich()
	n := fixture.NewRun(t, spec)
	n.SecretsBy = "ann"
	r, err := s.CreateRun(t.Context(), n)
	require.NoError(t, err)
	got, err := s.RunSpec(t.Context(), r.ID)
	require.NoError(t, err)
	want := *spec
	want.Secrets = map[string]run.Secret{}
	for name := range spec.Secrets {
		want.Secrets[name] = run.HiddenSecret
	}
	require.NotEmpty(t, want.Secrets)
	require.Equal(t, &want, got)
	source, err := s.RestartSource(t.Context(), r.ID)
	require.NoError(t, err)
	require.Equal(t, "ann", source.SecretsBy)
	_, err = s.RunSpec(t.Context(), "01jd0000000000000000000000")
	fixture.RequireCode(t, run.CodeNotFound, err)
}
