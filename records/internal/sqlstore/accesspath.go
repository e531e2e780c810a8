package sqlstore

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/drover-run/drover/run"
)

// accessPath is an access path to the runs of a query. One of the query's conditions
// yields the candidates, in the order of their ids and by an index; the others
// filter them. Its cost is the number of candidates down to the last run of the
// page.
type accessPath struct {
	q       run.ListQuery
	sources []source
	overlap bool        // sources may have runs in common
	filters []condition // filters of the candidates that the sources yield
}

// source is a part of an index that yields candidates.
type source struct {
	index string // a table with the column run_id; "" is runs itself
	condition
	filter condition // filter of these candidates only
}

// condition is a part of a WHERE clause.
type condition struct {
	where string
	args  []any
	// byID reports that the condition refers to the id "$id", and else to the
	// run r.
	byID bool
}

// indexedCondition is a condition of a query that may yield candidates, or filter them.
type indexedCondition struct {
	sources []source
	overlap bool
	filter  condition
}

// accessPaths returns the conditions of a query that have an index, and the others.
func accessPaths(q run.ListQuery) (kinds []indexedCondition, others []condition) {
	if groups, some := byState(q); some {
		kinds = append(kinds, groups)
	}
	if len(q.ChangeGroups) > 0 {
		var k indexedCondition
		for _, name := range q.ChangeGroups {
			k.sources = append(k.sources, source{index: `run_changegroups`, condition: condition{where: `run_changegroups.name = ?`, args: []any{name}}})
		}
		k.overlap = len(k.sources) > 1
		k.filter = rowExists(`run_changegroups`, oneOf(`f.name`, q.ChangeGroups))
		kinds = append(kinds, k)
	}
	values := make(map[string][]string)
	for _, a := range q.Annotations {
		if !slices.Contains(values[a.Key], a.Value) {
			values[a.Key] = append(values[a.Key], a.Value)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		var k indexedCondition
		for _, value := range values[key] {
			k.sources = append(k.sources, source{index: `run_annotations`, condition: condition{where: `run_annotations.name = ? AND run_annotations.value = ?`, args: []any{key, value}}})
		}
		of := oneOf(`f.value`, values[key])
		k.filter = rowExists(`run_annotations`, allOf(condition{where: `f.name = ?`, args: []any{key}}, of))
		kinds = append(kinds, k)
	}
	if len(kinds) == 0 {
		kinds = []indexedCondition{{sources: []source{{condition: condition{where: `1 = 1`}}}}}
	}
	return kinds, createdIn(q)
}

// rowExists is the condition that a table has a row for a run. It is not an EXISTS,
// which PostgreSQL might prefer as a source.
func rowExists(table string, c condition) condition {
	return condition{where: `(SELECT f.run_id FROM ` + table + ` f WHERE ` + c.where + ` AND f.run_id = $id LIMIT 1) IS NOT NULL`, args: c.args, byID: true}
}

// createdIn returns the conditions on the creation time, besides the bounds on
// ids that follow from it.
func createdIn(q run.ListQuery) (out []condition) {
	if t := q.CreatedAfter; !t.IsZero() {
		out = append(out, condition{where: `r.created_at > ?`, args: []any{t.UnixNano()}})
	}
	if t := q.CreatedBefore; !t.IsZero() {
		out = append(out, condition{where: `r.created_at < ?`, args: []any{t.UnixNano()}})
	}
	return out
}

// maxSources is how many parts of an index one statement reads in order.
// SQLite's limit is 500.
const maxSources = 200

// byState returns the condition on groups, phases and results, if there is one.
func byState(q run.ListQuery) (indexedCondition, bool) {
	groups := queryPaths(q.Groups)
	if len(groups) == 0 && len(q.Phases) == 0 && len(q.Results) == 0 {
		return indexedCondition{}, false
	}
	var filters []condition
	if len(groups) > 0 {
		var alternatives []string
		var args []any
		for _, path := range groups {
			low, high := below(path)
			alternatives = append(alternatives, `r.group_path = ? OR r.group_path >= ? AND r.group_path < ?`)
			args = append(args, path, low, high)
		}
		filters = append(filters, condition{where: `(` + strings.Join(alternatives, ` OR `) + `)`, args: args})
	} else {
		groups = []string{""}
	}
	result := oneOf(`r.result`, q.Results)
	k := indexedCondition{filter: allOf(append(filters, oneOf(`r.phase`, q.Phases), result)...)}
	states := states(q.Phases, q.Results)
	if len(groups)*len(states) > maxSources {
		k.sources = []source{{
			index:     `run_states`,
			condition: allOf(oneOf(`run_states.prefix`, groups), oneOf(`run_states.state`, states)),
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

// stateSources yields the runs of a group that have one of the states.
func stateSources(group string, states []state) []source {
	out := make([]source, len(states))
	for i, s := range states {
		out[i] = source{index: `run_states`, condition: condition{where: `run_states.prefix = ? AND run_states.state = ?`, args: []any{group, s}}}
	}
	return out
}

// allOf is the conjunction of the conditions that are not empty.
func allOf(list ...condition) condition {
	var out condition
	for _, c := range list {
		switch {
		case c.where == "":
		case out.where == "":
			out.where = c.where
		default:
			out.where += ` AND ` + c.where
		}
		out.args = append(out.args, c.args...)
	}
	return out
}

// oneOf is the condition that a column has one of the values; it is empty
// without values.
func oneOf[T ~string](column string, values []T) condition {
	if len(values) == 0 {
		return condition{}
	}
	return condition{where: column + ` IN (` + tuples(`?`, len(values)) + `)`, args: textArgs(values)}
}

// probeLimit is how many candidates are counted to choose an access path.
const probeLimit = 200

// chooseAccessPath returns the access path with the fewest candidates from the cursor
// on. If all have many, it returns the one whose first candidates reach the
// furthest.
func chooseAccessPath(ctx context.Context, q Querier, query run.ListQuery, at cursor) (*accessPath, error) {
	kinds, others := accessPaths(query)
	best, least, reach := 0, 0, run.ID("")
	if len(kinds) > 1 {
		for i, k := range kinds {
			w := &accessPath{q: query, sources: k.sources, overlap: k.overlap}
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
			if i == 0 || n < least || (n == least && n == probeLimit && further) { //nolint:gocritic // both: a full probe, of as many
				best, least, reach = i, n, last
			}
		}
	}
	w := &accessPath{q: query, sources: kinds[best].sources, overlap: kinds[best].overlap, filters: others}
	for i, k := range kinds {
		if i != best {
			w.filters = append(w.filters, k.filter)
		}
	}
	return w, nil
}

// none reports whether there are no candidates.
func (w *accessPath) none() bool { return len(w.sources) == 0 }

// probe counts the first candidates, and returns the last of them.
func (w *accessPath) probe(ctx context.Context, q Querier, at cursor) (n int, last run.ID, err error) {
	end := `max`
	if at.descending(w.q) {
		end = `min`
	}
	c := w.candidates(at, probeLimit)
	err = q.QueryRow(ctx, `SELECT count(*), coalesce(`+end+`(id), '') FROM (`+c.where+`) p`, c.args...).Scan(&n, &last)
	return n, last, err
}

// any reports whether there are runs from the cursor on.
func (w *accessPath) any(ctx context.Context, q Querier, at cursor) (bool, error) {
	c := w.candidates(at, 1)
	var found bool
	err := q.QueryRow(ctx, `SELECT EXISTS (`+c.where+`)`, c.args...).Scan(&found)
	return found, err
}

// statement reads the first n runs from the cursor on.
func (w *accessPath) statement(at cursor, n int) condition {
	c := w.candidates(at, n)
	direction := ``
	if at.descending(w.q) {
		direction = ` DESC`
	}
	return condition{where: `SELECT ` + runColumns + `, ` + detailColumns + ` FROM (` + c.where + `) c
		JOIN runs r ON r.id = c.id JOIN run_details d ON d.run_id = c.id ORDER BY c.id` + direction, args: c.args}
}

// runs reads the first n runs from the cursor on, in the order of its direction.
func (w *accessPath) runs(ctx context.Context, q Querier, at cursor, n int) ([]run.Run, error) {
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

// candidates selects the ids of the first n runs from the cursor on. Each
// source has its own limit of n: PostgreSQL merges sources incrementally only
// if they are ordered, and else reads and sorts all of them.
func (w *accessPath) candidates(at cursor, n int) condition {
	descending := at.descending(w.q)
	order := ` ORDER BY id`
	if descending {
		order += ` DESC`
	}
	order += ` LIMIT ?`
	bounds := w.bounds(at, descending)
	var out condition
	for i, src := range w.sources {
		part := src.candidates(append([]condition{src.filter}, w.filters...), bounds)
		switch {
		case !w.overlap && i > 0:
			out.where += ` UNION ALL `
		case w.overlap && i > 0:
			out.where += ` UNION `
		}
		if len(w.sources) > 1 {
			part.where, part.args = `SELECT id FROM (`+part.where+order+`) s`, append(part.args, n)
		}
		out.where += part.where
		out.args = append(out.args, part.args...)
	}
	out.where += order
	out.args = append(out.args, n)
	return out
}

// bound is one end of a range of ids.
type bound struct {
	id       run.ID // "" for none
	operator string
}

// narrow replaces the bound by another that is stricter: with a greater id if
// greater is set, else with a smaller one.
func (b *bound) narrow(to bound, greater bool) {
	if b.id == "" || greater && to.id > b.id || !greater && to.id < b.id || to.id == b.id && len(to.operator) < len(b.operator) {
		*b = to
	}
}

// bounds returns the limits on the ids of candidates: at most one on each side,
// since databases look up one and compare with the others.
func (w *accessPath) bounds(at cursor, descending bool) []condition {
	var low, high bound
	if t := w.q.CreatedAfter; !t.IsZero() {
		low = bound{idBound(t, false), ` >=`}
	}
	if t := w.q.CreatedBefore; !t.IsZero() {
		high = bound{idBound(t, true), ` <=`}
	}
	if at.id != "" {
		from := bound{at.id, at.operator(descending)}
		if descending {
			high.narrow(from, false)
		} else {
			low.narrow(from, true)
		}
	}
	var out []condition
	for _, b := range []bound{low, high} {
		if b.id != "" {
			out = append(out, condition{where: b.operator + ` ?`, args: []any{b.id}})
		}
	}
	return out
}

// candidates selects the ids of a source. Filters look up one row each, in
// subqueries, so that any query planner reads the source in order.
func (s *source) candidates(filters, bounds []condition) condition {
	table, id := s.index, s.index+`.run_id`
	if table == "" {
		table, id = `runs r`, `r.id`
	}
	out := condition{where: `SELECT ` + id + ` AS id FROM ` + table + ` WHERE ` + s.where, args: slices.Clone(s.args)}
	add := func(text string, c condition) {
		out.where += text
		out.args = append(out.args, c.args...)
	}
	for _, b := range bounds {
		add(` AND `+id+b.where, b)
	}
	var ofRun []condition
	for _, f := range filters {
		switch {
		case f.where == "":
		case f.byID:
			add(` AND `+strings.ReplaceAll(f.where, `$id`, id), f)
		case s.index == "":
			add(` AND `+f.where, f)
		default:
			ofRun = append(ofRun, f)
		}
	}
	if len(ofRun) == 0 {
		return out
	}
	out.where += ` AND (SELECT r.id FROM runs r WHERE r.id = ` + id
	for _, f := range ofRun {
		add(` AND `+f.where, f)
	}
	out.where += `) IS NOT NULL`
	return out
}

// queryPaths returns the groups that a query names, none if one of them is the
// root, which contains all. None of them is below another.
func queryPaths(groups []string) []string {
	var paths, out []string
	for _, g := range groups {
		path, all := queryPath(g)
		if all {
			return nil
		}
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		if !slices.ContainsFunc(out, func(above string) bool { return path == above || strings.HasPrefix(path, above+"/") }) {
			out = append(out, path)
		}
	}
	return out
}

// queryPath returns the path of a query without a trailing slash, and whether
// every group matches it.
func queryPath(group string) (path string, all bool) {
	path = strings.TrimRight(group, "/")
	return path, path == ""
}

// below returns the bounds of the paths below one: '0' follows '/'.
func below(path string) (low, high string) { return path + "/", path + "0" }
