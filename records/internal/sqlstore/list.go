package sqlstore

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

const defaultLimit = 25

// ListRuns implements records.Store.
func (s *Store) ListRuns(ctx context.Context, q run.ListQuery) (run.Page, error) {
	at, err := parseCursor(q)
	if err != nil {
		return run.Page{}, err
	}
	limit := q.Limit
	if limit < 1 {
		limit = defaultLimit
	}
	var page run.Page
	err = s.read(ctx, "listing runs", func(tx Querier) error {
		l := newLister(q)
		runs, err := l.query(ctx, tx, at, limit+1)
		if err != nil {
			return err
		}
		more := len(runs) > limit
		if more {
			runs = runs[:limit]
		}
		back := false // whether there is something on the other side
		if at.id != "" {
			other, err := l.query(ctx, tx, cursor{id: at.id, back: !at.back, inclusive: true}, 1)
			if err != nil {
				return err
			}
			back = len(other) > 0
		}
		if at.back {
			slices.Reverse(runs)
			more, back = back, more
		}
		page = run.Page{Runs: runs}
		if page.Token, err = readToken(ctx, tx, q.TokenFor); err != nil {
			return err
		}
		if len(runs) == 0 {
			return nil
		}
		if more {
			page.Next = formatCursor(q, cursor{id: runs[len(runs)-1].ID})
		}
		if back {
			page.Prev = formatCursor(q, cursor{id: runs[0].ID, back: true})
		}
		return nil
	})
	return page, err
}

// lister builds the statement of a list. One of the query's fields selects the
// candidates, in the order of their ids and by an index; the others filter.
type lister struct {
	q       run.ListQuery
	sources []source
	filter  string
	args    []any
}

// source is an index that yields candidates.
type source struct {
	table string // with r for runs, and i for its index if that is another
	id    string // the column to order by
	where string
	args  []any
}

func newLister(q run.ListQuery) *lister {
	l := &lister{q: q}
	groups := queryPaths(q.Groups)
	names := make(map[string][]string)
	for _, a := range q.Annotations {
		names[a.Key] = append(names[a.Key], a.Value)
	}
	keys := slices.Sorted(maps.Keys(names))
	open := len(q.Phases) > 0 && !slices.ContainsFunc(q.Phases, run.Phase.Final)
	few := len(q.Phases) > 0 && !slices.Contains(q.Phases, run.PhaseFinished)
	odd := len(q.Results) > 0 && !slices.ContainsFunc(q.Results, func(r run.Result) bool { return !rare(r) })
	switch {
	case len(keys) > 0:
		for _, value := range names[keys[0]] {
			l.sources = append(l.sources, source{`run_annotations i JOIN runs r ON r.id = i.run_id`, `i.run_id`, `i.name = ? AND i.value = ?`, []any{keys[0], value}})
		}
		keys = keys[1:]
	case len(q.ChangeGroups) > 0:
		for _, name := range q.ChangeGroups {
			l.sources = append(l.sources, source{`run_changegroups i JOIN runs r ON r.id = i.run_id`, `i.run_id`, `i.name = ?`, []any{name}})
		}
	case open && len(groups) > 0:
		for _, path := range groups {
			for _, phase := range q.Phases {
				l.sources = append(l.sources, source{`open_groups i JOIN runs r ON r.id = i.run_id`, `i.run_id`, `i.prefix = ? AND i.phase = ?`, []any{path, phase}})
			}
		}
		groups = nil
	case odd && len(groups) > 0:
		for _, path := range groups {
			for _, result := range q.Results {
				l.sources = append(l.sources, source{`group_results i JOIN runs r ON r.id = i.run_id`, `i.run_id`, `i.prefix = ? AND i.result = ?`, []any{path, result}})
			}
		}
		groups = nil
	case few:
		for _, phase := range q.Phases {
			l.sources = append(l.sources, source{`runs r`, `r.id`, `r.phase = ?`, []any{phase}})
		}
	case len(groups) > 0:
		for _, path := range groups {
			l.sources = append(l.sources, source{`run_groups i JOIN runs r ON r.id = i.run_id`, `i.run_id`, `i.prefix = ?`, []any{path}})
		}
		groups = nil
	case len(q.Results) > 0 && !slices.Contains(q.Results, run.ResultSuccess):
		for _, result := range q.Results {
			l.sources = append(l.sources, source{`runs r`, `r.id`, `r.result = ?`, []any{result}})
		}
	default:
		l.sources = []source{{`runs r`, `r.id`, `1 = 1`, nil}}
	}
	l.filters(groups, keys, names)
	return l
}

// filters adds what the sources do not select by.
func (l *lister) filters(groups, keys []string, names map[string][]string) {
	if len(groups) > 0 {
		var alternatives []string
		for _, path := range groups {
			low, high := below(path)
			alternatives = append(alternatives, `r.group_path = ? OR r.group_path >= ? AND r.group_path < ?`)
			l.args = append(l.args, path, low, high)
		}
		l.filter += ` AND (` + strings.Join(alternatives, ` OR `) + `)`
	}
	for _, key := range keys {
		l.filter += ` AND EXISTS (SELECT 1 FROM run_annotations a WHERE a.run_id = r.id AND a.name = ? AND a.value IN (` + tuples(`?`, len(names[key])) + `))`
		l.args = append(l.args, key)
		for _, value := range names[key] {
			l.args = append(l.args, value)
		}
	}
	if len(l.q.ChangeGroups) > 0 {
		l.filter += ` AND EXISTS (SELECT 1 FROM run_changegroups c WHERE c.run_id = r.id AND c.name IN (` + tuples(`?`, len(l.q.ChangeGroups)) + `))`
		l.args = append(l.args, texts(l.q.ChangeGroups)...)
	}
	addIn(l, `r.phase`, l.q.Phases)
	addIn(l, `r.result`, l.q.Results)
	if t := l.q.CreatedAfter; !t.IsZero() {
		l.filter += ` AND r.created_at > ?`
		l.args = append(l.args, t.UnixNano())
	}
	if t := l.q.CreatedBefore; !t.IsZero() {
		l.filter += ` AND r.created_at < ?`
		l.args = append(l.args, t.UnixNano())
	}
}

func addIn[T any](l *lister, column string, values []T) {
	if len(values) == 0 {
		return
	}
	l.filter += ` AND ` + column + ` IN (` + tuples(`?`, len(values)) + `)`
	for _, v := range values {
		l.args = append(l.args, v)
	}
}

// statement reads up to n runs from the cursor on, in the order of its
// direction.
func (l *lister) statement(at cursor, n int) (query string, args []any) {
	descending := l.q.Ascending == at.back
	order := ` ASC`
	if descending {
		order = ` DESC`
	}
	var parts []string
	for _, src := range l.sources {
		where := src.where
		args = append(args, src.args...)
		if at.id != "" {
			where += ` AND ` + src.id + at.operator(descending) + ` ?`
			args = append(args, at.id)
		}
		if t := l.q.CreatedAfter; !t.IsZero() {
			where += ` AND ` + src.id + ` >= ?`
			args = append(args, idBound(t, false))
		}
		if t := l.q.CreatedBefore; !t.IsZero() {
			where += ` AND ` + src.id + ` <= ?`
			args = append(args, idBound(t, true))
		}
		args = append(append(args, l.args...), n)
		parts = append(parts, `SELECT * FROM (SELECT `+src.id+` AS id FROM `+src.table+` WHERE `+where+l.filter+
			` ORDER BY `+src.id+order+` LIMIT ?) s`)
	}
	return `SELECT ` + runColumns + `, ` + detailColumns + ` FROM runs r JOIN run_details d ON d.run_id = r.id WHERE r.id IN (` +
		strings.Join(parts, ` UNION `) + `) ORDER BY r.id` + order + ` LIMIT ?`, append(args, n)
}

// query runs the statement.
func (l *lister) query(ctx context.Context, q Querier, at cursor, n int) ([]run.Run, error) {
	statement, args := l.statement(at, n)
	var runs []run.Run
	err := each(ctx, q, func(row scanner) error {
		var r runRow
		var texts detailScan
		if err := r.scan(row, texts.dest()...); err != nil {
			return err
		}
		details, err := texts.parse()
		if err == nil {
			runs = append(runs, r.summary(&details))
		}
		return err
	}, statement, args...)
	return runs, err
}

// queryPaths returns the groups that a query names, none where one of them is
// the root, which all are below.
func queryPaths(groups []string) []string {
	var out []string
	for _, g := range groups {
		path, all := queryPath(g)
		if all {
			return nil
		}
		if !slices.Contains(out, path) {
			out = append(out, path)
		}
	}
	return out
}

// queryPath returns the path of a query without a slash at its end, and
// whether every group matches it.
func queryPath(group string) (path string, all bool) {
	path = strings.TrimRight(group, "/")
	return path, path == ""
}

// below returns the bounds of the paths below one: '0' follows '/'.
func below(path string) (low, high string) { return path + "/", path + "0" }

// openPage is how many runs are read at once by OpenRuns.
const openPage = 1000

// OpenRuns implements records.Store.
func (s *Store) OpenRuns(ctx context.Context) iter.Seq2[run.ID, error] {
	return func(yield func(run.ID, error) bool) {
		last := run.ID("")
		for {
			var page []run.ID
			err := s.read(ctx, "listing open runs", func(q Querier) error {
				page = nil
				return each(ctx, q, func(row scanner) error {
					var id run.ID
					err := row.Scan(&id)
					page = append(page, id)
					return err
				}, `SELECT id FROM (SELECT * FROM (SELECT id FROM runs WHERE phase = 'queued' AND id > ? ORDER BY id LIMIT ?) a
					UNION ALL SELECT * FROM (SELECT id FROM runs WHERE phase = 'running' AND id > ? ORDER BY id LIMIT ?) b) c
					ORDER BY id LIMIT ?`, last, openPage, last, openPage, openPage)
			})
			if err != nil {
				yield("", err)
				return
			}
			for _, id := range page {
				if !yield(id, nil) {
					return
				}
				last = id
			}
			if len(page) < openPage {
				return
			}
		}
	}
}

// Stats implements records.Store.
func (s *Store) Stats(ctx context.Context) (records.Stats, error) {
	var out records.Stats
	err := s.read(ctx, "counting", func(q Querier) error {
		out = records.Stats{OpenRuns: make(map[run.Phase]int), OpenTasks: make(map[run.Status]int)}
		if err := each(ctx, q, func(row scanner) error {
			var phase run.Phase
			var text string
			if err := row.Scan(&phase, &text); err != nil {
				return err
			}
			out.OpenRuns[phase]++
			var c counts
			if err := unmarshal(text, &c); err != nil {
				return err
			}
			for status, n := range c {
				out.OpenTasks[status] += n
			}
			return nil
		}, `SELECT phase, counts FROM runs WHERE phase IN ('queued', 'running')`); err != nil {
			return err
		}
		var oldest int64
		if err := q.QueryRow(ctx, `SELECT count(*), coalesce(min(created_at), 0) FROM outbox`).Scan(&out.Outbox, &oldest); err != nil {
			return err
		}
		if oldest != 0 {
			out.OldestOutbox = max(0, time.Duration(s.now().UnixNano()-oldest))
		}
		return nil
	})
	return out, err
}
