// Command million fills a records store with a million runs, through the rows
// that the product writes for them, and measures the queries of clients. It
// prints a table; `make bench-million` runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/postgres"
	"github.com/drover-run/drover/records/sqlite"
	"github.com/drover-run/drover/run"
)

func main() {
	log.SetFlags(0)
	n := flag.Int("runs", 1_000_000, "how many runs to store")
	file := flag.String("sqlite", "", "an SQLite file to create; without it and -postgres both are measured, in a temporary folder")
	url := flag.String("postgres", "", "the URL of an empty PostgreSQL database, or \"start\" to start a server for it")
	keep := flag.Bool("keep", false, "measure the store of an earlier run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := measureAll(ctx, *n, *file, *url, *keep)
	stop()
	if err != nil {
		log.Fatal("million: ", err)
	}
}

func measureAll(ctx context.Context, n int, file, url string, keep bool) (failed error) {
	if file == "" && url == "" {
		dir, err := os.MkdirTemp("", "drover-million-")
		if err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, os.RemoveAll(dir)) }()
		file, url = filepath.Join(dir, "million.db"), "start"
	}
	var results [][]figure
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
	if url == "start" {
		var err error
		if url, err = testenv.Postgres(); err != nil {
			fmt.Fprintf(os.Stderr, "PostgreSQL is skipped: %v\n", err)
		}
	}
	if url != "" {
		open := func() (records.Store, error) { return postgres.Open(ctx, url, postgres.Options{}) }
		r, err := measureOne(ctx, open, func() (closer, error) { return openServer(ctx, url) }, n, keep)
		if err != nil {
			return fmt.Errorf("postgres: %w", err)
		}
		results, names = append(results, r), append(names, "PostgreSQL")
	}
	report(n, names, results)
	return nil
}

type closer interface {
	sink
	close(ctx context.Context) error
}

// measureOne fills a store and measures it.
func measureOne(
	ctx context.Context, open func() (records.Store, error), raw func() (closer, error), n int, keep bool,
) ([]figure, error) {
	store, err := open() // creates the schema
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
	all, err := queries(ctx, store, n, now)
	if err != nil {
		return nil, err
	}
	var out []figure
	for _, q := range all {
		f, err := measure(ctx, store, q)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.name, err)
		}
		out = append(out, f)
	}
	return out, nil
}

// figure is the measurement of one query.
type figure struct {
	name     string
	internal bool // no client makes the query: the goal does not apply
	p50, p95 time.Duration
	plan     string
}

const calls = 200

func measure(ctx context.Context, store records.Store, q query) (figure, error) {
	var took []time.Duration
	for i := range calls + 20 {
		begin := time.Now()
		if err := q.call(ctx); err != nil {
			return figure{}, err
		}
		if i >= 20 { // the first calls warm up
			took = append(took, time.Since(begin))
		}
	}
	slices.Sort(took)
	f := figure{name: q.name, internal: q.internal, p50: took[len(took)/2], p95: took[len(took)*95/100]}
	planner, ok := store.(interface {
		PlanList(ctx context.Context, q run.ListQuery) ([]string, error)
	})
	if q.list == nil || !ok {
		return f, nil
	}
	plan, err := planner.PlanList(ctx, q.list())
	f.plan = indexes(plan)
	return f, err
}

// indexes lists the indexes that a plan names, with the columns that bound the
// scanned range, and every full scan.
func indexes(plan []string) string {
	var out []string
	add := func(s string) {
		if s = "`" + strings.TrimSpace(s) + "`"; !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	for i, line := range plan {
		line = strings.TrimPrefix(strings.TrimSpace(line), "->  ")
		table, rest, _ := strings.Cut(strings.TrimPrefix(line, "SEARCH "), " ")
		_, columns, bounded := strings.Cut(rest, "(")
		switch {
		case table == "SCAN" && rest == "r", table == "r" && !strings.Contains(rest, "(id=?)"):
			add("runs(id)")
		case table == "SCAN" && rest == "run_warnings": // in its order
			add("run_warnings(run_id)")
		case table == "r" || table == "d" || strings.Contains(line, "on runs r") && len(out) > 0 || strings.Contains(line, "on run_details d"):
			// The runs of the page, by their ids.
		case strings.HasPrefix(line, "SEARCH ") && bounded:
			add(table + "(" + strings.NewReplacer(" AND ", ", ", "=?", "", "<?", "", ">?", "").Replace(columns))
		case strings.Contains(line, "Seq Scan"), strings.HasPrefix(line, "SCAN run"):
			add("FULL SCAN")
		case strings.Contains(line, "Scan") && strings.Contains(line, " using "):
			_, name, _ := strings.Cut(line, " using ")
			name, _, _ = strings.Cut(name, " ")
			if i+1 < len(plan) && !strings.HasPrefix(plan[i+1], "Index Cond") {
				name += " in order"
			}
			add(name)
		}
	}
	return strings.Join(out, ", ")
}

func report(n int, names []string, results [][]figure) {
	fmt.Printf("%d runs, %d calls of each kind\n\n| query | %s |\n|---|%s\n", n, calls,
		strings.Join(heads(names), " | "), strings.Repeat("---|", 3*len(names)))
	for i := range results[0] {
		var line strings.Builder
		line.WriteString("| " + results[0][i].name)
		for _, r := range results {
			f := r[i]
			met := ""
			if f.p95 > 20*time.Millisecond && !f.internal {
				met = " **over 20 ms**"
			}
			fmt.Fprintf(&line, " | %.2f ms | %.2f ms%s | %s", ms(f.p50), ms(f.p95), met, f.plan)
		}
		fmt.Println(line.String() + " |")
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
