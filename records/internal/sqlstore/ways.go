package sqlstore

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/drover-run/drover/run"
)

// way is a way to read the runs of a query. One of the query's conditions
// yields the candidates, in the order of their ids and by an index; the others
// filter them. What it costs is what the candidates are down to the last run
// of the page.
type way struct {
	q       run.ListQuery
	sources []source
	filters []condition // of candidates, which is what the sources leave over
}

// source is a part of an index that yields candidates.
type source struct {
	index string // the table i with the column run_id; "" is runs itself
	condition
	filter condition // of these candidates alone
}

// condition is a part of a WHERE clause. It may speak of the run r.
type condition struct {
	where string
	args  []any
}

// kind is a condition of a query that may yield candidates, or filter them.
type kind struct {
	sources []source
	filter  condition
}

// ways returns the conditions of a query that have an index, and the others.
func ways(q run.ListQuery) (kinds []kind, others []condition) {
	if groups, some := byState(q); some {
		kinds = append(kinds, groups)
	}
	if len(q.ChangeGroups) > 0 {
		var k kind
		for _, name := range q.ChangeGroups {
			k.sources = append(k.sources, source{index: `run_changegroups`, condition: condition{`i.name = ?`, []any{name}}})
		}
		k.filter = condition{`EXISTS (SELECT 1 FROM run_changegroups c WHERE c.run_id = r.id AND c.name IN (` + tuples(`?`, len(q.ChangeGroups)) + `))`, texts(q.ChangeGroups)}
		kinds = append(kinds, k)
	}
	values := make(map[string][]string)
	for _, a := range q.Annotations {
		values[a.Key] = append(values[a.Key], a.Value)
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		var k kind
		for _, value := range values[key] {
			k.sources = append(k.sources, source{index: `run_annotations`, condition: condition{`i.name = ? AND i.value = ?`, []any{key, value}}})
		}
		k.filter = condition{
			`EXISTS (SELECT 1 FROM run_annotations a WHERE a.run_id = r.id AND a.name = ? AND a.value IN (` + tuples(`?`, len(values[key])) + `))`,
			append([]any{key}, texts(values[key])...),
		}
		kinds = append(kinds, k)
	}
	if len(kinds) == 0 {
		kinds = []kind{{sources: []source{{condition: condition{where: `1 = 1`}}}}}
	}
	return kinds, createdIn(q)
}

// createdIn returns the conditions on the time of creation, beside those that
// follow for the ids.
func createdIn(q run.ListQuery) (out []condition) {
	if t := q.CreatedAfter; !t.IsZero() {
		out = append(out, condition{`r.created_at > ?`, []any{t.UnixNano()}})
	}
	if t := q.CreatedBefore; !t.IsZero() {
		out = append(out, condition{`r.created_at < ?`, []any{t.UnixNano()}})
	}
	return out
}

// maxSources is how many parts of an index one statement reads in their order.
// SQLite takes 500.
const maxSources = 200

// byState returns the condition on groups, phases and results, if there is one.
func byState(q run.ListQuery) (kind, bool) {
	groups := queryPaths(q.Groups)
	if len(groups) == 0 && len(q.Phases) == 0 && len(q.Results) == 0 {
		return kind{}, false
	}
	var filters []string
	var args []any
	if len(groups) > 0 {
		var alternatives []string
		for _, path := range groups {
			low, high := below(path)
			alternatives = append(alternatives, `r.group_path = ? OR r.group_path >= ? AND r.group_path < ?`)
			args = append(args, path, low, high)
		}
		filters = append(filters, `(`+strings.Join(alternatives, ` OR `)+`)`)
	} else {
		groups = []string{""}
	}
	result := oneOf(`r.result`, q.Results)
	for _, c := range []condition{oneOf(`r.phase`, q.Phases), result} {
		if c.where != "" {
			filters = append(filters, c.where)
			args = append(args, c.args...)
		}
	}
	k := kind{filter: condition{strings.Join(filters, ` AND `), args}}
	states := states(q.Phases, q.Results)
	if len(groups)*len(states) > maxSources {
		k.sources = []source{{
			index:     `run_states`,
			condition: condition{oneOf(`i.prefix`, groups).where + ` AND ` + oneOf(`i.state`, states).where, append(texts(groups), texts(states)...)},
			filter:    result,
		}}
		return k, true
	}
	for _, group := range groups {
		k.sources = append(k.sources, stateSources(group, states)...)
	}
	for i := range k.sources {
		if k.sources[i].args[1] == state(run.PhaseRunning) {
			k.sources[i].filter = result
		}
	}
	return k, true
}

// stateSources yield the runs of a group that have one of the states.
func stateSources(group string, states []state) []source {
	out := make([]source, len(states))
	for i, s := range states {
		out[i] = source{index: `run_states`, condition: condition{`i.prefix = ? AND i.state = ?`, []any{group, s}}}
	}
	return out
}

func oneOf[T ~string](column string, values []T) condition {
	if len(values) == 0 {
		return condition{}
	}
	return condition{column + ` IN (` + tuples(`?`, len(values)) + `)`, texts(values)}
}

// probed is how many candidates are looked at to choose a way.
const probed = 200

// chooseWay returns the way with the fewest candidates from the cursor on:
// the one with few at all, or else the one whose first candidates reach the
// furthest.
func chooseWay(ctx context.Context, q Querier, query run.ListQuery, at cursor) (*way, error) {
	kinds, others := ways(query)
	best, least, reach := 0, 0, run.ID("")
	if len(kinds) > 1 {
		for i, k := range kinds {
			w := &way{q: query, sources: k.sources}
			if w.none() {
				return w, nil
			}
			n, last, err := w.probe(ctx, q, at)
			if err != nil {
				return nil, err
			}
			further := last > reach
			if at.descending(query) {
				further = last < reach
			}
			if i == 0 || n < least || n == least && n == probed && further {
				best, least, reach = i, n, last
			}
		}
	}
	w := &way{q: query, sources: kinds[best].sources, filters: others}
	for i, k := range kinds {
		if i != best {
			w.filters = append(w.filters, k.filter)
		}
	}
	return w, nil
}

// none reports whether there are no candidates.
func (w *way) none() bool { return len(w.sources) == 0 }

// probe counts the first candidates, and returns the last of them.
func (w *way) probe(ctx context.Context, q Querier, at cursor) (n int, last run.ID, err error) {
	end := `max`
	if at.descending(w.q) {
		end = `min`
	}
	c := w.candidates(at, probed)
	err = q.QueryRow(ctx, `SELECT count(*), coalesce(`+end+`(id), '') FROM (`+c.where+`) p`, c.args...).Scan(&n, &last)
	return n, last, err
}

// any reports whether there are runs from the cursor on.
func (w *way) any(ctx context.Context, q Querier, at cursor) (bool, error) {
	c := w.candidates(at, 1)
	var found bool
	err := q.QueryRow(ctx, `SELECT EXISTS (`+c.where+`)`, c.args...).Scan(&found)
	return found, err
}

// statement reads the first n runs from the cursor on.
func (w *way) statement(at cursor, n int) condition {
	c := w.candidates(at, n)
	direction := ``
	if at.descending(w.q) {
		direction = ` DESC`
	}
	return condition{`SELECT ` + runColumns + `, ` + detailColumns + ` FROM (` + c.where + `) c
		JOIN runs r ON r.id = c.id JOIN run_details d ON d.run_id = c.id ORDER BY c.id` + direction, c.args}
}

// runs reads the first n runs from the cursor on, in the order of its direction.
func (w *way) runs(ctx context.Context, q Querier, at cursor, n int) ([]run.Run, error) {
	var runs []run.Run
	s := w.statement(at, n)
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
	}, s.where, s.args...)
	return runs, err
}

// candidates selects the ids of the first n runs from the cursor on.
func (w *way) candidates(at cursor, n int) condition {
	descending := at.descending(w.q)
	order := ` ORDER BY id`
	if descending {
		order += ` DESC`
	}
	order += ` LIMIT ?`
	parts := make([]string, len(w.sources))
	var args []any
	for i, src := range w.sources {
		part := src.candidates(append([]condition{src.filter}, w.filters...), w.bounds(at, descending))
		parts[i] = part.where + order
		args = append(append(args, part.args...), n)
	}
	if len(parts) == 1 {
		return condition{parts[0], args}
	}
	return condition{
		`SELECT id FROM (SELECT * FROM (` + strings.Join(parts, `) s UNION SELECT * FROM (`) + `) s) u` + order,
		append(args, n),
	}
}

// bounds are what the ids of candidates are limited by.
func (w *way) bounds(at cursor, descending bool) []condition {
	var out []condition
	if at.id != "" {
		out = append(out, condition{at.operator(descending) + ` ?`, []any{at.id}})
	}
	if t := w.q.CreatedAfter; !t.IsZero() {
		out = append(out, condition{` >= ?`, []any{idBound(t, false)}})
	}
	if t := w.q.CreatedBefore; !t.IsZero() {
		out = append(out, condition{` <= ?`, []any{idBound(t, true)}})
	}
	return out
}

// candidates selects the ids of a source, which the runs are read for only
// where there is something to filter.
func (s *source) candidates(filters, bounds []condition) condition {
	text, id := `SELECT i.run_id AS id FROM `+s.index+` i`, `i.run_id`
	filters = slices.DeleteFunc(filters, func(c condition) bool { return c.where == "" })
	switch {
	case s.index == "":
		text, id = `SELECT r.id AS id FROM runs r`, `r.id`
	case len(filters) > 0:
		text += ` JOIN runs r ON r.id = i.run_id`
	}
	text += ` WHERE ` + s.where
	args := slices.Clone(s.args)
	for _, b := range bounds {
		text += ` AND ` + id + b.where
		args = append(args, b.args...)
	}
	for _, f := range filters {
		text += ` AND ` + f.where
		args = append(args, f.args...)
	}
	return condition{text, args}
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
