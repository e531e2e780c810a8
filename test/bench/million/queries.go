package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// query is one kind of call, with another argument each time.
type query struct {
	name     string
	list     func() run.ListQuery // nil if it is no list
	call     func(ctx context.Context) error
	internal bool // no client makes the query
}

// sampled is how many runs are drawn for the calls that need an id.
const sampled = 200

// sample draws ids of runs: of any run, and of open ones.
func sample(ctx context.Context, store records.Store, shapeAt func(i int) shape, n int) (ids, open []run.ID, err error) {
	for range sampled {
		page, err := store.ListRuns(ctx, run.ListQuery{CreatedBefore: shapeAt(1 + rand.IntN(n-1)).created, Limit: 1})
		if err != nil {
			return nil, nil, err
		}
		ids = append(ids, page.Runs[0].ID)
	}
	open, err = store.OpenRuns(ctx, "", n)
	return ids, open, err
}

func queries(ctx context.Context, store records.Store, n int, now time.Time) ([]query, error) {
	shapeAt := shapes(n, now)
	some := func() shape { return shapeAt(rand.IntN(n)) }
	var out []query
	for _, l := range lists() {
		next := func() run.ListQuery { return l.q(some()) }
		out = append(out, query{name: l.name, list: next, call: func(ctx context.Context) error {
			_, err := store.ListRuns(ctx, next())
			return err
		}})
	}
	for _, l := range cursors() {
		// The calls that lead to the cursor are not measured.
		var pages []run.ListQuery
		for range sampled {
			q := l.q(some())
			page, err := store.ListRuns(ctx, q)
			if err != nil {
				return nil, err
			}
			if q.Cursor = page.Next; l.back && q.Cursor != "" {
				if page, err = store.ListRuns(ctx, q); err != nil {
					return nil, err
				}
				q.Cursor = page.Prev
			}
			if q.Cursor != "" {
				pages = append(pages, q)
			}
		}
		out = append(out, query{name: l.name, call: func(ctx context.Context) error {
			_, err := store.ListRuns(ctx, pages[rand.IntN(len(pages))])
			return err
		}})
	}
	ids, open, err := sample(ctx, store, shapeAt, n)
	if err != nil {
		return nil, err
	}
	return append(append(out, groups(store, some)...), single(store, ids, open)...), nil
}

// groups returns calls about groups.
func groups(store records.Store, some func() shape) []query {
	return []query{
		{name: "counts and last run of 10 narrow groups", call: func(ctx context.Context) error {
			q := run.GroupQuery{}
			for range 10 {
				q.Paths = append(q.Paths, some().group)
			}
			_, err := store.Groups(ctx, q)
			return err
		}},
		{name: "counts and last run of the group of all", call: func(ctx context.Context) error {
			_, err := store.Groups(ctx, run.GroupQuery{Paths: []string{"/project"}})
			return err
		}},
		{name: "25 groups below a path, with counts and last runs", call: func(ctx context.Context) error {
			_, err := store.Groups(ctx, run.GroupQuery{Under: "/project", After: some().group})
			return err
		}},
		{name: "25 groups of a tenant, with counts and last runs", call: func(ctx context.Context) error {
			_, err := store.Groups(ctx, run.GroupQuery{Within: []string{some().tenant()}})
			return err
		}},
		{name: "what waits for the approval of a tenant", call: func(ctx context.Context) error {
			_, err := store.Approvals(ctx, run.ApprovalQuery{Within: []string{some().tenant()}})
			return err
		}},
		{name: "a change group with its runs", call: func(ctx context.Context) error {
			_, _, err := store.ChangeGroups(ctx, run.ChangeGroupQuery{Names: []string{some().changeGroup()}})
			return err
		}},
		{name: "runs to delete, with the newest 1,000 of each group kept (count)", call: func(ctx context.Context) error {
			_, err := store.DeleteRuns(ctx, run.DeleteQuery{Group: some().group, Keep: 1000, DryRun: true})
			return err
		}},
	}
}

// single returns calls about one run.
func single(store records.Store, ids, open []run.ID) []query {
	one := func(ids []run.ID) run.ID { return ids[rand.IntN(len(ids))] }
	return []query{
		{name: "one run with its tasks", call: func(ctx context.Context) error {
			_, err := store.GetRun(ctx, one(ids))
			return err
		}},
		{name: "what a queued run waits for", call: func(ctx context.Context) error {
			_, err := store.GroupWaits(ctx, one(open))
			return err
		}},
		{name: "queue positions of a run's tasks in their pools", call: func(ctx context.Context) error {
			_, err := store.QueuePositions(ctx, one(open))
			return err
		}},
		{name: "pools, with their queued and running tasks", call: func(ctx context.Context) error {
			_, err := store.ListPools(ctx)
			return err
		}},
		{name: "open runs and tasks (internal, for the metrics)", internal: true, call: func(ctx context.Context) error {
			_, err := store.Stats(ctx)
			return err
		}},
	}
}

// listed is a kind of list.
type listed struct {
	name string
	q    func(s shape) run.ListQuery
	back bool // of cursors: the previous page
}

const largest = "/project/0" // has a fifth of all runs

func lists() []listed {
	input := func(name, value string) []run.InputValue { return []run.InputValue{{Name: name, Value: value}} }
	annotated := func(key, value string) []run.Annotation { return []run.Annotation{{Key: key, Value: value}} }
	return []listed{
		{name: "newest page", q: func(shape) run.ListQuery { return run.ListQuery{} }},
		{name: "oldest page", q: func(shape) run.ListQuery { return run.ListQuery{Ascending: true} }},
		{name: "100 runs before a time", q: func(s shape) run.ListQuery { return run.ListQuery{Limit: 100, CreatedBefore: s.created} }},
		{name: "phase queued", q: func(shape) run.ListQuery { return run.ListQuery{Phases: []run.Phase{run.PhaseQueued}} }},
		{name: "phase queued or running, oldest first", q: func(shape) run.ListQuery {
			return run.ListQuery{Phases: []run.Phase{run.PhaseQueued, run.PhaseRunning}, Ascending: true}
		}},
		{name: "phase finished", q: func(shape) run.ListQuery { return run.ListQuery{Phases: []run.Phase{run.PhaseFinished}} }},
		{name: "result failed", q: func(shape) run.ListQuery { return run.ListQuery{Results: []run.Result{run.ResultFailed}} }},
		{name: "group of some 60 runs", q: func(s shape) run.ListQuery { return run.ListQuery{Groups: []string{s.group}} }},
		{name: "group of a fifth of all", q: func(shape) run.ListQuery { return run.ListQuery{Groups: []string{largest}} }},
		{name: "10 groups", q: func(s shape) run.ListQuery {
			var q run.ListQuery
			for i := range 10 {
				q.Groups = append(q.Groups, fmt.Sprintf("/project/%d", (s.project+i)%projects))
			}
			return q
		}},
		{name: "all runs of a tenant with some 400", q: func(s shape) run.ListQuery { return run.ListQuery{Groups: []string{s.tenant()}} }},
		{name: "the failed runs of such a tenant", q: func(s shape) run.ListQuery {
			return run.ListQuery{Groups: []string{s.tenant()}, Results: []run.Result{run.ResultFailed}}
		}},
		{name: "the runs of such a tenant with warnings", q: func(s shape) run.ListQuery {
			return run.ListQuery{Groups: []string{s.tenant()}, Warnings: true}
		}},
		{name: "the runs of such a tenant by name", q: func(s shape) run.ListQuery {
			return run.ListQuery{Groups: []string{s.tenant()}, Names: []string{s.name}}
		}},
		{name: "the runs of such a tenant by creator", q: func(s shape) run.ListQuery {
			return run.ListQuery{Groups: []string{s.tenant()}, CreatedBy: []string{s.creator}}
		}},
		{name: "the runs of such a tenant by an annotation of a quarter", q: func(s shape) run.ListQuery {
			return run.ListQuery{Groups: []string{s.tenant()}, Annotations: annotated("env", "prod")}
		}},
		{name: "the runs of such a tenant by an input value of a quarter", q: func(s shape) run.ListQuery {
			return run.ListQuery{Groups: []string{s.tenant()}, Inputs: input("env", "prod")}
		}},
		{name: "all runs of a tenant, 100 before a time", q: func(s shape) run.ListQuery {
			return run.ListQuery{Groups: []string{s.tenant()}, Limit: 100, CreatedBefore: s.created}
		}},
		{name: "narrow group, phase running", q: func(s shape) run.ListQuery {
			return run.ListQuery{Groups: []string{s.group}, Phases: []run.Phase{run.PhaseRunning}}
		}},
		{name: "large group, phase cancelled (none)", q: func(shape) run.ListQuery {
			return run.ListQuery{Groups: []string{largest}, Phases: []run.Phase{run.PhaseCancelled}}
		}},
		{name: "narrow group, result stopped", q: func(s shape) run.ListQuery {
			return run.ListQuery{Groups: []string{s.group}, Results: []run.Result{run.ResultStopped}}
		}},
		{name: "large group, phase finished, result failed", q: func(shape) run.ListQuery {
			return run.ListQuery{Groups: []string{largest}, Phases: []run.Phase{run.PhaseFinished}, Results: []run.Result{run.ResultFailed}}
		}},
		{name: "change group, with its token", q: func(s shape) run.ListQuery {
			return run.ListQuery{ChangeGroups: []string{s.changeGroup()}, TokenFor: []string{s.changeGroup()}}
		}},
		{name: "change group of a fifth of all, phase running", q: func(shape) run.ListQuery {
			return run.ListQuery{ChangeGroups: []string{"project-0"}, Phases: []run.Phase{run.PhaseRunning}}
		}},
		{name: "annotation of five runs", q: func(s shape) run.ListQuery {
			return run.ListQuery{Annotations: annotated("commit", s.commit)}
		}},
		{name: "annotation of a quarter, in a narrow group", q: func(s shape) run.ListQuery {
			return run.ListQuery{Annotations: annotated("env", "prod"), Groups: []string{s.group}}
		}},
		{name: "annotation of a quarter, in the group of a fifth", q: func(shape) run.ListQuery {
			return run.ListQuery{Annotations: annotated("env", "prod"), Groups: []string{largest}}
		}},
		{name: "runs with warnings (a hundredth)", q: func(shape) run.ListQuery { return run.ListQuery{Warnings: true} }},
		{name: "runs with warnings, in a narrow group", q: func(s shape) run.ListQuery {
			return run.ListQuery{Warnings: true, Groups: []string{s.group}}
		}},
		{name: "runs with warnings, in the group of a fifth", q: func(shape) run.ListQuery {
			return run.ListQuery{Warnings: true, Groups: []string{largest}}
		}},
		{name: "input value of five runs", q: func(s shape) run.ListQuery { return run.ListQuery{Inputs: input("commit", s.commit)} }},
		{name: "input value of a quarter, in a narrow group", q: func(s shape) run.ListQuery {
			return run.ListQuery{Inputs: input("env", "prod"), Groups: []string{s.group}}
		}},
		{name: "input value of a quarter, in the group of a fifth", q: func(shape) run.ListQuery {
			return run.ListQuery{Inputs: input("env", "prod"), Groups: []string{largest}}
		}},
		{name: "input value of a quarter, with warnings", q: func(shape) run.ListQuery {
			return run.ListQuery{Inputs: input("env", "prod"), Warnings: true}
		}},
		{name: "name of a hundredth", q: func(shape) run.ListQuery { return run.ListQuery{Names: []string{"nightly"}} }},
		{name: "name of nearly all, phase running", q: func(shape) run.ListQuery {
			return run.ListQuery{Names: []string{"build-and-test"}, Phases: []run.Phase{run.PhaseRunning}}
		}},
		{name: "creator of some 2,000 runs", q: func(s shape) run.ListQuery { return run.ListQuery{CreatedBy: []string{s.creator}} }},
		{name: "creator of some 2,000 runs, result failed", q: func(s shape) run.ListQuery {
			return run.ListQuery{CreatedBy: []string{s.creator}, Results: []run.Result{run.ResultFailed}}
		}},
		{name: "creator of some 2,000 runs, in a narrow group", q: func(s shape) run.ListQuery {
			return run.ListQuery{CreatedBy: []string{s.creator}, Groups: []string{s.group}}
		}},
		{name: "an hour", q: func(s shape) run.ListQuery {
			return run.ListQuery{CreatedAfter: s.created.Add(-time.Hour), CreatedBefore: s.created}
		}},
		{name: "narrow group, a day", q: func(s shape) run.ListQuery {
			return run.ListQuery{Groups: []string{s.group}, CreatedAfter: s.created.Add(-24 * time.Hour), CreatedBefore: s.created}
		}},
		{name: "phase, result, large group, annotation and time", q: func(s shape) run.ListQuery {
			return run.ListQuery{
				Phases: []run.Phase{run.PhaseFinished}, Results: []run.Result{run.ResultFailed}, Groups: []string{largest},
				Annotations: annotated("env", "prod"), CreatedBefore: s.created,
			}
		}},
		{name: "the same with a change group and in a narrow group", q: func(s shape) run.ListQuery {
			return run.ListQuery{
				Phases: []run.Phase{run.PhaseFinished}, Results: []run.Result{run.ResultFailed}, Groups: []string{s.group},
				ChangeGroups: []string{s.changeGroup()}, Annotations: annotated("env", "prod"), CreatedBefore: s.created,
			}
		}},
	}
}

func cursors() []listed {
	deep := func(s shape) run.ListQuery { return run.ListQuery{CreatedBefore: s.created} }
	group := func(s shape) run.ListQuery { return run.ListQuery{Groups: []string{largest}, CreatedBefore: s.created} }
	failed := func(s shape) run.ListQuery {
		return run.ListQuery{Groups: []string{largest}, Results: []run.Result{run.ResultFailed}, CreatedBefore: s.created}
	}
	return []listed{
		{name: "deep among all: the next page", q: deep},
		{name: "deep among all: the page before", q: deep, back: true},
		{name: "deep in the group of a fifth: the next page", q: group},
		{name: "deep in the group of a fifth: the page before", q: group, back: true},
		{name: "deep among the failed of that group: the next page", q: failed},
		{name: "deep among the failed of that group: the page before", q: failed, back: true},
	}
}
