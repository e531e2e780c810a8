package runs

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// accessPath is an access path to the runs of a query. One of the query's conditions
// yields the candidates, in the order of their ids and by an index; the others
// filter them. Its cost is the number of candidates down to the last run of the
// page, which is bounded.
type accessPath struct {
	q       run.ListQuery
	sources []source
	overlap bool              // sources may have runs in common
	filters []sqldb.Condition // filters of the candidates that the sources yield
	end     run.ID            // of the last candidate that a read compares, "" for all
}

// source is a part of an index that yields candidates.
type source struct {
	index string // a table with the column run_id; "" is runs itself
	sqldb.Condition
	filter sqldb.Condition // filter of these candidates only
	// loose says that rows may be left of runs that do not exist: a process of a version
	// without the index leaves those of a run that it deletes. A page that counted such a
	// row as a run would seem to be the last.
	loose bool
}

// indexedCondition is a condition of a query that may yield candidates, or filter them.
type indexedCondition struct {
	sources []source
	overlap bool
	filter  sqldb.Condition
}

// accessPaths returns the conditions of a query that have an index, and the others.
func accessPaths(q run.ListQuery) (kinds []indexedCondition, others []sqldb.Condition) {
	if q.Warnings {
		if !contains(q.Phases, run.PhaseFinished) || !contains(q.Results, run.ResultSuccess) {
			return []indexedCondition{{}}, nil
		}
		kinds = append(kinds, withWarnings())
		// All of them are finished and have succeeded: only the groups need an index of their own.
		q.Phases, q.Results = nil, nil
		if len(q.Groups) > 0 {
			q.Phases, q.Results = []run.Phase{run.PhaseFinished}, []run.Result{run.ResultSuccess}
		}
	}
	if groups, some := byState(q); some {
		kinds = append(kinds, groups)
	}
	if len(q.ChangeGroups) > 0 {
		var k indexedCondition
		for _, name := range q.ChangeGroups {
			for _, table := range []string{`run_changegroups`, `run_task_groups`} {
				k.sources = append(k.sources, source{index: table, Condition: sqldb.Condition{Where: table + `.name = ?`, Args: []any{name}}})
			}
		}
		k.overlap = true
		of, ofTasks := rowExists(`run_changegroups`, sqldb.OneOf(`f.name`, q.ChangeGroups)), rowExists(`run_task_groups`, sqldb.OneOf(`f.name`, q.ChangeGroups))
		k.filter = sqldb.Condition{Where: `(` + of.Where + ` OR ` + ofTasks.Where + `)`, Args: slices.Concat(of.Args, ofTasks.Args), ByID: true}
		kinds = append(kinds, k)
	}
	annotations, inputs := make(namedValues), make(namedValues)
	for _, a := range q.Annotations {
		annotations.add(a.Key, a.Value)
	}
	for _, in := range q.Inputs {
		inputs.add(in.Name, in.Value)
	}
	kinds = append(kinds, annotations.conditions(`run_annotations`, false)...)
	kinds = append(kinds, inputs.conditions(`run_inputs`, true)...)
	if len(q.Names) > 0 {
		kinds = append(kinds, byColumn(``, `r.name`, q.Names, sqldb.OneOf(`r.name`, q.Names)))
	}
	if len(q.CreatedBy) > 0 {
		of := rowExists(`run_details`, sqldb.OneOf(`f.created_by`, q.CreatedBy))
		kinds = append(kinds, byColumn(`run_details`, `run_details.created_by`, q.CreatedBy, of))
	}
	if len(kinds) == 0 {
		kinds = []indexedCondition{{sources: []source{{Condition: sqldb.Condition{Where: `1 = 1`}}}}}
	}
	return kinds, createdIn(q)
}

// contains reports whether a list of alternatives, of which none means all, has a value.
func contains[T comparable](alternatives []T, value T) bool {
	return len(alternatives) == 0 || slices.Contains(alternatives, value)
}

// withWarnings is the condition that a run succeeded with warnings.
func withWarnings() indexedCondition {
	return indexedCondition{
		sources: []source{{index: `run_warnings`, Condition: sqldb.Condition{Where: `1 = 1`}, loose: true}},
		filter:  rowExists(`run_warnings`, sqldb.Condition{Where: `1 = 1`}),
	}
}

// namedValues are the values that a query gives for each name. Those of one name are
// alternatives.
type namedValues map[string][]string

func (v namedValues) add(name, value string) {
	if !slices.Contains(v[name], value) {
		v[name] = append(v[name], value)
	}
}

// conditions returns a condition for each name. The index of the table has the columns
// name, value and run_id.
func (v namedValues) conditions(table string, loose bool) []indexedCondition {
	var kinds []indexedCondition
	for _, name := range slices.Sorted(maps.Keys(v)) {
		var k indexedCondition
		for _, value := range v[name] {
			is := sqldb.Condition{Where: table + `.name = ? AND ` + table + `.value = ?`, Args: []any{name, value}}
			k.sources = append(k.sources, source{index: table, Condition: is, loose: loose})
		}
		of := sqldb.OneOf(`f.value`, v[name])
		k.filter = rowExists(table, sqldb.AllOf(sqldb.Condition{Where: `f.name = ?`, Args: []any{name}}, of))
		kinds = append(kinds, k)
	}
	return kinds
}

// byColumn returns the condition that a column of a run has one of some values. The index
// of the table has the column and the id.
func byColumn(table, column string, values []string, filter sqldb.Condition) indexedCondition {
	k := indexedCondition{filter: filter}
	for _, value := range slices.Compact(slices.Sorted(slices.Values(values))) {
		k.sources = append(k.sources, source{index: table, Condition: sqldb.Condition{Where: column + ` = ?`, Args: []any{value}}})
	}
	return k
}

// rowExists is the condition that a table has a row for a run. It is not an EXISTS,
// which PostgreSQL might prefer as a source.
func rowExists(table string, c sqldb.Condition) sqldb.Condition {
	return sqldb.Condition{Where: `(SELECT f.run_id FROM ` + table + ` f WHERE ` + c.Where + ` AND f.run_id = $id LIMIT 1) IS NOT NULL`, Args: c.Args, ByID: true}
}

// createdIn returns the conditions on the creation time, besides the bounds on
// ids that follow from it.
func createdIn(q run.ListQuery) (out []sqldb.Condition) {
	if t := q.CreatedAfter; !t.IsZero() {
		out = append(out, sqldb.Condition{Where: `r.created_at > ?`, Args: []any{t.UnixNano()}})
	}
	if t := q.CreatedBefore; !t.IsZero() {
		out = append(out, sqldb.Condition{Where: `r.created_at < ?`, Args: []any{t.UnixNano()}})
	}
	return out
}

// maxSources is how many selects one union has. SQLite's limit is 500.
const maxSources = 200

// byState returns the condition on groups, phases and results, if there is one.
func byState(q run.ListQuery) (indexedCondition, bool) {
	groups := sqldb.QueryPaths(q.Groups)
	if len(groups) == 0 && len(q.Phases) == 0 && len(q.Results) == 0 {
		return indexedCondition{}, false
	}
	var filters []sqldb.Condition
	if len(groups) > 0 {
		filters = append(filters, sqldb.InGroups(`r.group_path`, groups))
	} else {
		groups = []string{""}
	}
	result := sqldb.OneOf(`r.result`, q.Results)
	k := indexedCondition{filter: sqldb.AllOf(append(filters, sqldb.OneOf(`r.phase`, q.Phases), result)...)}
	states := rows.States(q.Phases, q.Results)
	for _, group := range groups {
		k.sources = append(k.sources, stateSources(group, states)...)
	}
	for i := range k.sources {
		if k.sources[i].Args[1] == rows.State(run.PhaseRunning) {
			k.sources[i].filter = result
		}
	}
	return k, true
}

// stateSources yields the runs of a group that have one of the states.
func stateSources(group string, states []rows.State) []source {
	out := make([]source, len(states))
	for i, s := range states {
		out[i] = source{index: `run_states`, Condition: sqldb.Condition{Where: `run_states.prefix = ? AND run_states.state = ?`, Args: []any{group, s}}}
	}
	return out
}

// probeLimit is how many candidates are counted to choose an access path.
const probeLimit = 200

// chooseAccessPath returns the access path with the fewest candidates from the cursor
// on. If all have many, it returns the one whose first candidates reach the
// furthest.
func chooseAccessPath(ctx context.Context, q sqldb.Querier, query run.ListQuery, at cursor) (*accessPath, error) {
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
	filtered := slices.ContainsFunc(w.sources, func(s source) bool { return s.filter.Where != "" })
	if least < probeLimit && !filtered {
		return w, nil
	}
	var err error
	w.end, err = w.last(ctx, q, at)
	return w, err
}

// none reports whether there are no candidates.
func (w *accessPath) none() bool { return len(w.sources) == 0 }

// probe counts the first candidates, and returns the last of them.
func (w *accessPath) probe(ctx context.Context, q sqldb.Querier, at cursor) (n int, last run.ID, err error) {
	end := `max`
	if at.descending(w.q) {
		end = `min`
	}
	c := w.candidates(at, probeLimit)
	err = q.QueryRow(ctx, `SELECT count(*), coalesce(`+end+`(id), '') FROM (`+c.Where+`) p`, c.Args...).Scan(&n, &last)
	return n, last, err
}

// maxCandidates bounds the candidates that one read compares with the other conditions.
const maxCandidates = 2_000

// last returns the id of the last candidate that one read compares, "" if it compares
// all of them.
func (w *accessPath) last(ctx context.Context, q sqldb.Querier, at cursor) (id run.ID, err error) {
	bare := accessPath{q: w.q, sources: slices.Clone(w.sources), overlap: w.overlap}
	for i := range bare.sources {
		bare.sources[i].filter, bare.sources[i].loose = sqldb.Condition{}, false
	}
	direction := ``
	if at.descending(w.q) {
		direction = ` DESC`
	}
	c := bare.candidates(at, maxCandidates)
	err = sqldb.Each(ctx, q, func(row sqldb.Scanner) error { return row.Scan(&id) },
		`SELECT id FROM (`+c.Where+`) p ORDER BY id`+direction+` LIMIT 1 OFFSET ?`, append(c.Args, maxCandidates-1)...)
	return id, err
}

// statement reads the first n runs from the cursor on.
func (w *accessPath) statement(at cursor, n int) sqldb.Condition {
	c := w.candidates(at, n)
	direction := ``
	if at.descending(w.q) {
		direction = ` DESC`
	}
	return sqldb.Condition{Where: `SELECT ` + rows.RunColumns + `, ` + rows.DetailColumns + ` FROM (` + c.Where + `) c
		JOIN runs r ON r.id = c.id JOIN run_details d ON d.run_id = c.id ORDER BY c.id` + direction, Args: c.Args}
}

// runs reads the first n runs from the cursor on, in the order of its direction.
func (w *accessPath) runs(ctx context.Context, q sqldb.Querier, at cursor, n int) ([]run.Run, error) {
	var runs []run.Run
	s := w.statement(at, n)
	err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var r rows.Run
		var texts rows.DetailScan
		if err := r.Scan(row, texts.Dest()...); err != nil {
			return err
		}
		details, err := texts.Parse()
		if err == nil {
			runs = append(runs, r.Summary(&details))
		}
		return err
	}, s.Where, s.Args...)
	return runs, err
}

// candidates selects the ids of the first n runs from the cursor on. Each
// source has its own limit of n: PostgreSQL merges sources incrementally only
// if they are ordered, and else reads and sorts all of them.
func (w *accessPath) candidates(at cursor, n int) sqldb.Condition {
	descending := at.descending(w.q)
	order := ` ORDER BY id`
	if descending {
		order += ` DESC`
	}
	order += ` LIMIT ?`
	bounds := w.bounds(at, descending)
	parts := make([]sqldb.Condition, len(w.sources))
	for i, src := range w.sources {
		parts[i] = src.candidates(append([]sqldb.Condition{src.filter}, w.filters...), bounds)
	}
	out := w.union(parts, order, n)
	out.Where += order
	out.Args = append(out.Args, n)
	return out
}

// union selects the first n ids of each part, in unions of unions if there are many.
func (w *accessPath) union(parts []sqldb.Condition, order string, n int) sqldb.Condition {
	if len(parts) == 1 {
		return parts[0]
	}
	if len(parts) > maxSources {
		var unions []sqldb.Condition
		for some := range slices.Chunk(parts, maxSources) {
			unions = append(unions, w.union(some, order, n))
		}
		return w.union(unions, order, n)
	}
	operator := ` UNION ALL `
	if w.overlap {
		operator = ` UNION `
	}
	var out sqldb.Condition
	for i, part := range parts {
		if i > 0 {
			out.Where += operator
		}
		out.Where += `SELECT id FROM (` + part.Where + order + `) s`
		out.Args = append(append(out.Args, part.Args...), n)
	}
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
func (w *accessPath) bounds(at cursor, descending bool) []sqldb.Condition {
	var low, high bound
	if t := w.q.CreatedAfter; !t.IsZero() {
		low = bound{sqldb.IDBound(t, false), ` >=`}
	}
	if t := w.q.CreatedBefore; !t.IsZero() {
		high = bound{sqldb.IDBound(t, true), ` <=`}
	}
	if at.id != "" {
		from := bound{at.id, at.operator(descending)}
		if descending {
			high.narrow(from, false)
		} else {
			low.narrow(from, true)
		}
	}
	switch {
	case w.end == "":
	case descending:
		low.narrow(bound{w.end, ` >=`}, true)
	default:
		high.narrow(bound{w.end, ` <=`}, false)
	}
	var out []sqldb.Condition
	for _, b := range []bound{low, high} {
		if b.id != "" {
			out = append(out, sqldb.Condition{Where: b.operator + ` ?`, Args: []any{b.id}})
		}
	}
	return out
}

// candidates selects the ids of a source. Filters look up one row each, in
// subqueries, so that any query planner reads the source in order.
func (s *source) candidates(filters, bounds []sqldb.Condition) sqldb.Condition {
	table, id := s.index, s.index+`.run_id`
	if table == "" {
		table, id = `runs r`, `r.id`
	}
	out := sqldb.Condition{Where: `SELECT ` + id + ` AS id FROM ` + table + ` WHERE ` + s.Where, Args: slices.Clone(s.Args)}
	add := func(text string, c sqldb.Condition) {
		out.Where += text
		out.Args = append(out.Args, c.Args...)
	}
	for _, b := range bounds {
		add(` AND `+id+b.Where, b)
	}
	var ofRun []sqldb.Condition
	for _, f := range filters {
		switch {
		case f.Where == "":
		case f.ByID:
			add(` AND `+strings.ReplaceAll(f.Where, `$id`, id), f)
		case s.index == "":
			add(` AND `+f.Where, f)
		default:
			ofRun = append(ofRun, f)
		}
	}
	if len(ofRun) == 0 && !s.loose {
		return out
	}
	out.Where += ` AND (SELECT r.id FROM runs r WHERE r.id = ` + id
	for _, f := range ofRun {
		add(` AND `+f.Where, f)
	}
	out.Where += `) IS NOT NULL`
	return out
}
