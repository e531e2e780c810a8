// Package audit has the tests of the audit log.
package audit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/recordstest/fixture"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/auditlog"
)

// Tests returns the tests of the audit log, by name.
func Tests() map[string]func(t *testing.T, d *fixture.Database) {
	return map[string]func(t *testing.T, d *fixture.Database){
		"completed_once":     testCompletedOnce,
		"filters":            testFilters,
		"pages":              testPages,
		"several_filters":    testSeveralFilters,
		"group_of_the_run":   testGroupOfRun,
		"forgets_the_oldest": testForget,
	}
}

// start is the time of the first record.
var start = time.UnixMilli(1_800_000_000_000).UTC()

// newRecord returns the nth record of a test, of a second of its own.
func newRecord(n int, change func(*auditlog.Record)) auditlog.Record {
	at := start.Add(time.Duration(n) * time.Second)
	r := auditlog.Record{
		ID: strings.ToLower(ulid.MustNew(ulid.Timestamp(at), ulid.DefaultEntropy()).String()), Time: at, Until: at, Count: 1,
		Subject: "ana", Token: "ana", Action: "putPool", Resource: auditlog.Resource{Kind: "pool", ID: "linux"},
		Result: auditlog.Success, Status: 200, RequestID: "r1", Remote: "192.0.2.1", Details: `[]`,
	}
	if change != nil {
		change(&r)
	}
	return r
}

func appendAll(t *testing.T, s records.Store, all ...auditlog.Record) {
	t.Helper()
	require.NoError(t, s.AppendAudit(t.Context(), all))
}

func list(t *testing.T, s records.Store, q auditlog.Query) []auditlog.Record {
	t.Helper()
	page, err := s.ListAudit(t.Context(), q)
	require.NoError(t, err)
	return page.Records
}

func testCompletedOnce(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	begun := newRecord(0, func(r *auditlog.Record) { r.Result, r.Status = auditlog.Unknown, 0 })
	appendAll(t, s)
	appendAll(t, s, begun)
	require.Equal(t, []auditlog.Record{begun}, list(t, s, auditlog.Query{}))

	ended := begun
	ended.Result, ended.Status, ended.Code, ended.Created, ended.Details = auditlog.Failed, 409, run.CodeConflict, "r2", `["x"]`
	appendAll(t, s, ended, newRecord(1, nil))
	again := ended
	again.Result, again.Status, again.Code = auditlog.Success, 200, ""
	appendAll(t, s, again)
	appendAll(t, s, begun)
	got := list(t, s, auditlog.Query{})
	require.Len(t, got, 2)
	require.Equal(t, ended, got[1], "a result that is written stays")
}

func testFilters(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	ben := newRecord(1, func(r *auditlog.Record) { r.Subject = "ben" })
	stop := newRecord(2, func(r *auditlog.Record) {
		r.Action, r.Resource, r.Group = "stopRun", auditlog.Resource{Kind: auditlog.KindRun, ID: "a", Task: "t"}, "/acme/web"
	})
	refused := newRecord(3, func(r *auditlog.Record) {
		r.Subject, r.Token, r.Action, r.Resource, r.Result, r.Status, r.Code = "", "", "", auditlog.Resource{}, auditlog.Refused, 401, run.CodeUnauthenticated
		r.Count, r.Until = 7, r.Time.Add(time.Minute)
	})
	other := newRecord(4, func(r *auditlog.Record) {
		r.Action, r.Resource, r.Group = "stopRun", auditlog.Resource{Kind: auditlog.KindRun, ID: "b"}, "/acme-2"
	})
	appendAll(t, s, newRecord(0, nil), ben, stop, refused, other)
	at := func(r auditlog.Record) time.Time { return r.Time }
	for name, tt := range map[string]struct {
		q    auditlog.Query
		want []auditlog.Record
	}{
		"subject":       {auditlog.Query{Subject: "ben"}, []auditlog.Record{ben}},
		"action":        {auditlog.Query{Action: "stopRun"}, []auditlog.Record{other, stop}},
		"kind":          {auditlog.Query{Resource: auditlog.Resource{Kind: "run"}, Ascending: true}, []auditlog.Record{stop, other}},
		"resource":      {auditlog.Query{Resource: auditlog.Resource{Kind: "run", ID: "a"}}, []auditlog.Record{stop}},
		"group":         {auditlog.Query{Group: "/acme/web"}, []auditlog.Record{stop}},
		"group_above":   {auditlog.Query{Group: "/acme/"}, []auditlog.Record{stop}},
		"group_root":    {auditlog.Query{Group: "/", Subject: "ben"}, []auditlog.Record{ben}},
		"result":        {auditlog.Query{Result: auditlog.Refused}, []auditlog.Record{refused}},
		"from":          {auditlog.Query{From: at(refused)}, []auditlog.Record{other, refused}},
		"to":            {auditlog.Query{To: at(stop), Subject: "ben"}, []auditlog.Record{ben}},
		"time":          {auditlog.Query{From: at(ben), To: at(refused)}, []auditlog.Record{stop, ben}},
		"all_must_fit":  {auditlog.Query{Group: "/acme", Action: "stopRun", Subject: "ben"}, nil},
		"group_in_time": {auditlog.Query{Group: "/acme", From: at(refused)}, nil},
	} {
		require.Equal(t, tt.want, list(t, s, tt.q), name)
	}
}

func testPages(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	var want []string
	for n := range 25 {
		r := newRecord(n, func(r *auditlog.Record) { r.Group = "/acme"; r.Subject = fmt.Sprintf("s%d", n%2) })
		appendAll(t, s, r)
		want = append(want, r.ID)
	}
	for _, q := range []auditlog.Query{{}, {Group: "/acme"}, {Action: "putPool", From: start}} {
		q.Ascending, q.Limit = true, 10
		var got []string
		for {
			page, err := s.ListAudit(t.Context(), q)
			require.NoError(t, err)
			for _, r := range page.Records {
				got = append(got, r.ID)
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
			require.Len(t, page.Records, 10)
		}
		require.Equal(t, want, got)
	}
	page, err := s.ListAudit(t.Context(), auditlog.Query{Limit: 25})
	require.NoError(t, err)
	require.Empty(t, page.Next)
	require.Equal(t, want[24], page.Records[0].ID, "newest first")

	page, err = s.ListAudit(t.Context(), auditlog.Query{Limit: 2})
	require.NoError(t, err)
	for _, q := range []auditlog.Query{{Cursor: page.Next, Subject: "s1"}, {Cursor: "x"}, {Cursor: page.Next, Ascending: true}} {
		_, err = s.ListAudit(t.Context(), q)
		fixture.RequireCode(t, run.CodeInvalid, err)
	}
}

// testSeveralFilters lists with filters of which each matches more records than one read
// compares with the others.
func testSeveralFilters(t *testing.T, d *fixture.Database) {
	const many = 2_000
	s := d.Store(t)
	n := 0
	create := func(count int, change func(*auditlog.Record)) (all []auditlog.Record) {
		for range count {
			n++
			all = append(all, newRecord(n, change))
		}
		for some := range slices.Chunk(all, 500) {
			appendAll(t, s, some...)
		}
		return all
	}
	match := func(r *auditlog.Record) { r.Group = "/acme/web" }
	first := create(1, match)[0]
	create(many, func(r *auditlog.Record) { r.Action = "stopRun"; r.Group = "/acme" })
	create(many, func(r *auditlog.Record) { r.Subject = "ben"; r.Result = auditlog.Failed })
	rare := create(1, func(r *auditlog.Record) { r.Subject = "cy"; r.Group = "/acme" })[0]
	last := create(1, match)[0]

	read := func(q auditlog.Query) (all []auditlog.Record, reads int) {
		q.Limit = 10
		for {
			page, err := s.ListAudit(t.Context(), q)
			require.NoError(t, err)
			all = append(all, page.Records...)
			reads++
			if q.Cursor = page.Next; q.Cursor == "" {
				return all, reads
			}
		}
	}
	for name, tt := range map[string]struct {
		q     auditlog.Query
		want  []auditlog.Record
		reads int
	}{
		"two":       {auditlog.Query{Subject: "ana", Action: "putPool"}, []auditlog.Record{last, first}, 2},
		"ascending": {auditlog.Query{Subject: "ana", Action: "putPool", Ascending: true}, []auditlog.Record{first, last}, 2},
		"three":     {auditlog.Query{Group: "/acme", Resource: auditlog.Resource{Kind: "pool", ID: "linux"}, Action: "putPool", Subject: "ana"}, []auditlog.Record{last, first}, 2},
		"none":      {auditlog.Query{Result: auditlog.Failed, Group: "/acme"}, nil, 2},
		"one_rare":  {auditlog.Query{Subject: "cy", Action: "putPool", Group: "/acme", Result: auditlog.Success}, []auditlog.Record{rare}, 1},
		"in_time":   {auditlog.Query{Subject: "ana", Action: "putPool", From: rare.Time}, []auditlog.Record{last}, 1},
	} {
		got, reads := read(tt.q)
		require.Equal(t, tt.want, got, name)
		require.Equal(t, tt.reads, reads, name)
	}
}

func testGroupOfRun(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	id := string(fixture.Create(t, s, fixture.OneTask("/acme/web")).ID)
	begun := newRecord(0, func(r *auditlog.Record) {
		r.Action, r.Resource, r.Result, r.Status = "cancelRun", auditlog.Resource{Kind: auditlog.KindRun, ID: id}, auditlog.Unknown, 0
	})
	created := newRecord(1, func(r *auditlog.Record) {
		r.Action, r.Resource, r.Result, r.Status = "createRun", auditlog.Resource{Kind: auditlog.KindRun}, auditlog.Unknown, 0
	})
	appendAll(t, s, begun, created)
	require.NoError(t, s.CancelRun(t.Context(), run.ID(id), nil))
	require.NoError(t, s.DeleteRun(t.Context(), run.ID(id)))
	begun.Result, begun.Status = auditlog.Success, 200
	appendAll(t, s, begun)
	got := list(t, s, auditlog.Query{Group: "/acme"})
	require.Len(t, got, 1, "the group is kept after the run is gone")
	require.Equal(t, "/acme/web", got[0].Group)
	require.Equal(t, auditlog.Success, got[0].Result)

	created.Resource.ID, created.Result, created.Status = string(fixture.Create(t, s, fixture.OneTask("/acme/new")).ID), auditlog.Success, 201
	appendAll(t, s, created)
	got = list(t, s, auditlog.Query{Group: "/acme/new"})
	require.Len(t, got, 1, "a call that creates a run has its group in the end")
	require.Equal(t, created.Resource, got[0].Resource)
}

func testForget(t *testing.T, d *fixture.Database) {
	s := d.Store(t)
	for n := range 5 {
		appendAll(t, s, newRecord(n, func(r *auditlog.Record) { r.Group = "/acme/web" }))
	}
	before := start.Add(3 * time.Second)
	for i, want := range []int{2, 1, 0} {
		n, err := s.ForgetAudit(t.Context(), before, 2)
		require.NoError(t, err)
		require.Equal(t, want, n, i)
	}
	for _, q := range []auditlog.Query{{}, {Group: "/acme"}, {Group: "/acme/web"}} {
		got := list(t, s, q)
		require.Len(t, got, 2)
		require.Equal(t, before, got[1].Time)
	}
}
