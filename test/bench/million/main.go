// Command million fills a records store with a million runs, through the rows
// that the product writes for them, and measures what clients ask of it. It
// prints a table; `make bench-million` runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/postgres"
	"github.com/drover-run/drover/records/sqlite"
	"github.com/drover-run/drover/run"
)

func main() {
	log.SetFlags(0)
	n := flag.Int("runs", 1_000_000, "how many runs to store")
	file := flag.String("sqlite", "", "an SQLite file to make; \"\" leaves SQLite out")
	url := flag.String("postgres", "", "the URL of an empty PostgreSQL database; \"\" leaves PostgreSQL out")
	keep := flag.Bool("keep", false, "measure what is there from an earlier time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := measureAll(ctx, *n, *file, *url, *keep)
	stop()
	if err != nil {
		log.Fatal("million: ", err)
	}
}

func measureAll(ctx context.Context, n int, file, url string, keep bool) error {
	var results []map[string]figure
	var names []string
	if file != "" {
		open := func() (records.Store, error) { return sqlite.Open(ctx, file, sqlite.Options{}) }
		r, err := measureOne(ctx, open, func() (closer, error) { return openFile(file) }, n, keep)
		if err != nil {
			return fmt.Errorf("sqlite: %w", err)
		}
		if info, err := os.Stat(file); err == nil {
			fmt.Fprintf(os.Stderr, "%s has %d MiB\n", filepath.Base(file), info.Size()>>20)
		}
		results, names = append(results, r), append(names, "SQLite")
	}
	if url != "" {
		open := func() (records.Store, error) { return postgres.Open(ctx, url, postgres.Options{}) }
		r, err := measureOne(ctx, open, func() (closer, error) { return openServer(ctx, url) }, n, keep)
		if err != nil {
			return fmt.Errorf("postgres: %w", err)
		}
		results, names = append(results, r), append(names, "PostgreSQL")
	}
	print(n, names, results)
	return nil
}

type closer interface {
	sink
	close(ctx context.Context) error
}

// measureOne fills a store and measures it.
func measureOne(
	ctx context.Context, open func() (records.Store, error), raw func() (closer, error), n int, keep bool,
) (map[string]figure, error) {
	store, err := open() // makes the schema
	if err != nil {
		return nil, err
	}
	defer func() { _ = store.Close() }()
	now := time.Now()
	if !keep {
		to, err := raw()
		if err != nil {
			return nil, err
		}
		if err := generate(ctx, to, n, now); err != nil {
			return nil, err
		}
		if err := to.close(ctx); err != nil {
			return nil, err
		}
		fmt.Fprintf(os.Stderr, "filled in %s\n", time.Since(now).Round(time.Second))
	}
	out := map[string]figure{}
	for _, q := range queries(store, n, now) {
		f, err := measure(ctx, store, q)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.name, err)
		}
		out[q.name] = f
	}
	return out, nil
}

// figure is how one query went.
type figure struct {
	p50, p95 time.Duration
	plan     string
}

const calls = 200

func measure(ctx context.Context, store records.Store, q query) (figure, error) {
	var took []time.Duration
	for i := range calls + 20 {
		begin := time.Now()
		if err := q.call(ctx, i); err != nil {
			return figure{}, err
		}
		if i >= 20 { // the first ones warm up
			took = append(took, time.Since(begin))
		}
	}
	slices.Sort(took)
	f := figure{p50: took[len(took)/2], p95: took[len(took)*95/100]}
	planner, ok := store.(interface {
		PlanList(ctx context.Context, q run.ListQuery) ([]string, error)
	})
	if q.list == nil || !ok {
		return f, nil
	}
	plan, err := planner.PlanList(ctx, q.list(7))
	f.plan = indexes(plan)
	return f, err
}

// indexes lists the indexes that a plan names, and every full scan.
func indexes(plan []string) string {
	var out []string
	add := func(s string) {
		if s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	for _, line := range plan {
		if strings.Contains(line, "Seq Scan") || strings.HasPrefix(strings.TrimSpace(line), "SCAN r") && !strings.Contains(line, "INDEX") {
			add("FULL SCAN")
		}
		for _, word := range []string{"INDEX ", "using ", "Index Scan on "} {
			if _, rest, ok := strings.Cut(line, word); ok {
				name, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
				add(strings.Trim(name, "()"))
				break
			}
		}
		if strings.Contains(line, "PRIMARY KEY") {
			words := strings.Fields(line)
			add(words[1] + "_pkey")
		}
	}
	return strings.Join(out, ", ")
}

// query is one kind of call, with another argument each time.
type query struct {
	name string
	list func(i int) run.ListQuery // nil where it is no list
	call func(ctx context.Context, i int) error
}

func queries(store records.Store, n int, now time.Time) []query {
	of := shapes(n, now)
	any := func() shape { return of(rand.IntN(n)) }
	lists := []struct {
		name string
		q    func(s shape) run.ListQuery
	}{
		{"newest page", func(shape) run.ListQuery { return run.ListQuery{} }},
		{"oldest page", func(shape) run.ListQuery { return run.ListQuery{Ascending: true} }},
		{"page of 100 in the midst, by time", func(s shape) run.ListQuery { return run.ListQuery{Limit: 100, CreatedBefore: s.created} }},
		{"phase queued", func(shape) run.ListQuery { return run.ListQuery{Phases: []run.Phase{run.PhaseQueued}} }},
		{"phase queued or running, oldest first", func(shape) run.ListQuery {
			return run.ListQuery{Phases: []run.Phase{run.PhaseQueued, run.PhaseRunning}, Ascending: true}
		}},
		{"result failed", func(shape) run.ListQuery { return run.ListQuery{Results: []run.Result{run.ResultFailed}} }},
		{"group, narrow", func(s shape) run.ListQuery { return run.ListQuery{Groups: []string{s.group}} }},
		{"group of a fifth of all", func(shape) run.ListQuery { return run.ListQuery{Groups: []string{"/project/0"}} }},
		{"group, phase running", func(s shape) run.ListQuery {
			return run.ListQuery{Groups: []string{s.group}, Phases: []run.Phase{run.PhaseRunning}}
		}},
		{"group, result stopped", func(s shape) run.ListQuery {
			return run.ListQuery{Groups: []string{fmt.Sprintf("/project/%d", s.project)}, Results: []run.Result{run.ResultStopped}}
		}},
		{"group, phase finished, result failed", func(s shape) run.ListQuery {
			return run.ListQuery{Groups: []string{"/project/0"}, Phases: []run.Phase{run.PhaseFinished}, Results: []run.Result{run.ResultFailed}}
		}},
		{"change group", func(s shape) run.ListQuery {
			return run.ListQuery{ChangeGroups: []string{fmt.Sprintf("project-%d", s.project)}, TokenFor: []string{fmt.Sprintf("project-%d", s.project)}}
		}},
		{"change group, phase running", func(shape) run.ListQuery {
			return run.ListQuery{ChangeGroups: []string{"project-0"}, Phases: []run.Phase{run.PhaseRunning}}
		}},
		{"annotation of five runs", func(s shape) run.ListQuery {
			return run.ListQuery{Annotations: []run.Annotation{{Key: "commit", Value: s.commit}}}
		}},
		{"annotation of a quarter, in a narrow group", func(s shape) run.ListQuery {
			return run.ListQuery{Annotations: []run.Annotation{{Key: "env", Value: "prod"}}, Groups: []string{s.group}}
		}},
		{"phase, result, group, annotation and time", func(s shape) run.ListQuery {
			return run.ListQuery{
				Phases: []run.Phase{run.PhaseFinished}, Results: []run.Result{run.ResultFailed}, Groups: []string{"/project/0"},
				Annotations: []run.Annotation{{Key: "env", Value: "prod"}}, CreatedBefore: s.created,
			}
		}},
	}
	var out []query
	for _, l := range lists {
		make := func(i int) run.ListQuery { return l.q(any()) }
		out = append(out, query{l.name, make, func(ctx context.Context, i int) error {
			_, err := store.ListRuns(ctx, make(i))
			return err
		}})
	}
	out = append(out, query{"next page of a group, by its cursor", nil, func(ctx context.Context, _ int) error {
		q := run.ListQuery{Groups: []string{"/project/0"}, CreatedBefore: any().created}
		page, err := store.ListRuns(ctx, q)
		if err != nil || page.Next == "" {
			return err
		}
		q.Cursor = page.Next
		_, err = store.ListRuns(ctx, q)
		return err
	}})
	return append(out,
		query{"counts and last run of 10 groups", nil, func(ctx context.Context, _ int) error {
			q := run.GroupQuery{}
			for range 10 {
				q.Paths = append(q.Paths, any().group)
			}
			_, err := store.Groups(ctx, q)
			return err
		}},
		query{"counts and last run of the largest group", nil, func(ctx context.Context, _ int) error {
			_, err := store.Groups(ctx, run.GroupQuery{Paths: []string{"/project"}})
			return err
		}},
		query{"25 groups below a path", nil, func(ctx context.Context, _ int) error {
			_, err := store.Groups(ctx, run.GroupQuery{Under: "/project", After: any().group})
			return err
		}},
		query{"change group with its runs", nil, func(ctx context.Context, _ int) error {
			_, _, err := store.ChangeGroups(ctx, run.ChangeGroupQuery{Names: []string{fmt.Sprintf("project-%d", any().project)}})
			return err
		}},
	)
}

func print(n int, names []string, results []map[string]figure) {
	fmt.Printf("%d runs, %d calls of each kind\n\n| query | %s |\n|---|%s\n", n, calls,
		strings.Join(heads(names), " | "), strings.Repeat("---|", 3*len(names)))
	for _, q := range queries(nil, n, time.Now()) {
		line := "| " + q.name
		for _, r := range results {
			f := r[q.name]
			met := ""
			if f.p95 > 20*time.Millisecond {
				met = " **over 20 ms**"
			}
			line += fmt.Sprintf(" | %.2f ms | %.2f ms%s | %s", ms(f.p50), ms(f.p95), met, f.plan)
		}
		fmt.Println(line + " |")
	}
}

func heads(names []string) []string {
	var out []string
	for _, name := range names {
		out = append(out, name+" p50", "p95", "indexes")
	}
	return out
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
