package runs

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/changegroups"
	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// newRun is a run prepared outside of the transaction.
type newRun struct {
	records.NewRun
	header      string
	source      string // "" for none
	secretNames []string
	secrets     string
	annotations string
	pages       []string
	nodes       []int // nodes that have tasks
	specs       []string
	matrices    []string
	axes        []string // by task
}

func prepare(r records.NewRun) (*newRun, error) {
	n := &newRun{NewRun: r, secretNames: r.Spec.SecretNames()}
	header := *r.Spec
	header.Tasks, header.Secrets, header.Annotations = nil, nil, nil
	var err error
	if n.header, err = sqldb.Marshal(header); err != nil {
		return nil, err
	}
	if r.Source != nil {
		source := *r.Source
		source.Secrets, source.Annotations = nil, nil
		if n.source, err = sqldb.Marshal(source); err != nil {
			return nil, err
		}
	}
	if n.secrets, err = sqldb.SecretsText(r.Spec.Secrets); err != nil {
		return nil, err
	}
	if n.annotations, err = sqldb.Marshal(r.Spec.Annotations); err != nil {
		return nil, err
	}
	for _, page := range run.SplitPlan(r.Plan, run.MaxPlanPage) {
		text, err := sqldb.Marshal(page)
		if err != nil {
			return nil, err
		}
		n.pages = append(n.pages, text)
	}
	return n, n.prepareTasks()
}

func (n *newRun) prepareTasks() error {
	n.axes = make([]string, len(n.Tasks))
	last := -1
	for i, t := range n.Tasks {
		if len(t.Axis) > 0 {
			axis, err := sqldb.Marshal(t.Axis)
			if err != nil {
				return err
			}
			n.axes[i] = axis
		}
		if t.Node == last { // the tasks of a node are consecutive
			continue
		}
		last = t.Node
		bare := *n.Spec.Tasks[t.Spec]
		matrix, err := sqldb.Marshal(bare.Matrix)
		if err != nil {
			return err
		}
		bare.Matrix = run.Matrix{}
		spec, err := sqldb.Marshal(bare)
		if err != nil {
			return err
		}
		n.nodes, n.specs, n.matrices = append(n.nodes, t.Node), append(n.specs, spec), append(n.matrices, matrix)
	}
	return nil
}

// CreateRun implements records.Store.
func (s *Store) CreateRun(ctx context.Context, r records.NewRun) (run.Run, error) {
	n, err := prepare(r)
	if err != nil {
		return run.Run{}, s.db.Wrap("prepare a run", err)
	}
	var row *rows.Run
	var known run.ID
	err = changegroups.WithRunLocks(ctx, s.db, "create a run", r.Token, func(t *sqldb.Tx, preempted []run.ID, token run.Token) error {
		var err error
		if known, err = lookupIdempotencyKey(ctx, t, r.IdempotencyKey); err != nil || known != "" {
			return err
		}
		row = &rows.Run{
			Name: r.Spec.Name, Group: r.Spec.Group, Priority: cmp.Or(r.Spec.Priority, run.DefaultPriority),
			Admission: cmp.Or(r.Spec.Admission, run.AdmissionAuto), Phase: run.PhaseQueued, Result: run.ResultUnknown,
			Counts: rows.Counts{}, Version: 1,
		}
		paths, err := limitedPaths(ctx, t, row.Group)
		if err != nil {
			return err
		}
		members, ofTasks := slices.Concat(r.Spec.ChangeGroups, paths), r.Spec.ChangeGroupsOfTasks()
		row.Grouped, row.TaskGroups = len(members) > 0, len(ofTasks) > 0
		if len(r.Tasks) > 0 {
			row.Counts[run.StatusNotStarted] = len(r.Tasks)
		}
		if len(r.Spec.SetupErrors) > 0 {
			row.Phase = run.PhaseSetupError
		}
		if r.Restart != nil {
			row.RestartedFrom = r.Restart.From
			preempted = append(preempted, r.Restart.From)
		}
		groups, err := changegroups.LockRunsWithGroups(ctx, t, preempted)
		if err != nil {
			return err
		}
		if err := changegroups.LockGroups(ctx, t, slices.Concat(groups, members, ofTasks), token); err != nil {
			return err
		}
		if err := changegroups.CheckToken(t, token); err != nil {
			return err
		}
		if err := assignNumber(ctx, t, row, r.Time); err != nil {
			return err
		}
		// These come first, since the rest is useless if they fail.
		if row.Admission != run.AdmissionManual && !row.Phase.Final() {
			if err := changegroups.CheckCircle(ctx, t, ofTasks, r.Spec.ChangeGroups); err != nil {
				return err
			}
		}
		if err := joinGroups(ctx, t, row, members); err != nil {
			return err
		}
		changegroups.BumpVersions(t, slices.Concat(ofTasks, token.Groups())...)
		if err := changegroups.NameGroupsOfTasks(ctx, t, row.ID, ofTasks, r.Spec.ChangeGroups); err != nil {
			return err
		}
		if row.Phase.Final() {
			if err := changegroups.EndRunOfTasks(ctx, t, row); err != nil {
				return err
			}
		}
		if err := insertRun(ctx, t, row, n); err != nil {
			return err
		}
		if r.Restart != nil {
			if err := restart(ctx, t, row, r.Restart, changegroups.LocksOf(t).Runs[r.Restart.From]); err != nil {
				return err
			}
			old := changegroups.LocksOf(t).Runs[r.Restart.From]
			of, err := changegroups.GroupsOfTasks(ctx, t, old)
			if err != nil {
				return err
			}
			changegroups.BumpVersions(t, slices.Concat(changegroups.LocksOf(t).Members[old.ID], of)...)
		}
		return storeIdempotencyKey(ctx, t, r.IdempotencyKey, row.ID)
	})
	switch {
	case err != nil:
		return run.Run{}, err
	case known != "":
		return s.replay(ctx, known)
	}
	if r.Restart != nil {
		return s.GetRun(ctx, row.ID)
	}
	return n.created(row)
}

// limitedPaths returns the change groups of the paths at or above a group that have a
// limit.
func limitedPaths(ctx context.Context, t *sqldb.Tx, group string) ([]string, error) {
	names := run.PathChangeGroups(group)
	if len(names) == 0 {
		return nil, nil
	}
	var out []string
	err := sqldb.Each(ctx, t, func(row sqldb.Scanner) error {
		var name string
		err := row.Scan(&name)
		out = append(out, name)
		return err
	}, `SELECT name FROM changegroups WHERE max_running > 0 AND name IN (`+sqldb.InList(len(names))+`) ORDER BY name`, sqldb.InListArgs(names)...)
	return out, err
}

// joinGroups adds a new run to its change groups, which are locked.
func joinGroups(ctx context.Context, t *sqldb.Tx, r *rows.Run, groups []string) error {
	if len(groups) == 0 {
		return nil
	}
	groups = slices.Compact(slices.Sorted(slices.Values(groups)))
	at := changegroups.SlotDone
	switch {
	case r.Phase.Final():
	case r.Admission == run.AdmissionManual:
		at = changegroups.SlotNotStarted
	default:
		admitted, err := changegroups.TryAdmit(ctx, t, groups, changegroups.KeyOfRun(r.ID, r.Priority, t.Now))
		if err != nil {
			return err
		}
		at = changegroups.SlotWaiting
		if admitted {
			at = changegroups.SlotHolding
		}
	}
	changegroups.BumpVersions(t, groups...)
	return sqldb.Bulk(ctx, t, `INSERT INTO run_changegroups (name, run_id, state, priority, since) VALUES `, `(?, ?, ?, ?, ?)`, ``, len(groups),
		func(i int, args []any) []any { return append(args, groups[i], r.ID, at, r.Priority, t.Now) })
}

// assignNumber assigns the run its counter, id and time. It locks the row of the
// counter, so that ids and counters of a group root are in the same order.
func assignNumber(ctx context.Context, t *sqldb.Tx, row *rows.Run, at time.Time) error {
	root := run.GroupRoot(row.Group)
	var last run.ID
	if err := t.QueryRow(ctx, `INSERT INTO counters (root, counter) VALUES (?, 1)
		ON CONFLICT (root) DO UPDATE SET counter = counters.counter + 1 RETURNING counter, last_id`, root).Scan(&row.Counter, &last); err != nil {
		return err
	}
	created := sqldb.ToTime(t.Now)
	if !at.IsZero() {
		created = at.UTC()
	}
	var err error
	if row.ID, err = sqldb.NextID(last, created, !at.IsZero()); err != nil {
		return err
	}
	stamp, err := sqldb.IDTime(row.ID)
	if err != nil {
		return err
	}
	// The time of a run and that of its id are the same, to the millisecond.
	if created.Before(stamp) {
		created = stamp
	}
	row.Created = sqldb.FromTime(created)
	if row.Phase.Final() {
		row.Ended = row.Created
	}
	if row.ID > last {
		_, err = t.Exec(ctx, `UPDATE counters SET last_id = ? WHERE root = ?`, row.ID, root)
	}
	return err
}

func insertRun(ctx context.Context, t *sqldb.Tx, row *rows.Run, n *newRun) error {
	counted, err := sqldb.Marshal(row.Counts)
	if err != nil {
		return err
	}
	if _, err := t.Exec(ctx, `INSERT INTO runs (id, name, group_path, counter, priority, admission, admitted, phase, result, reason,
		created_at, ended_at, counts, grouped, task_groups, restarted_from) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		row.ID, row.Name, row.Group, row.Counter, row.Priority, row.Admission, row.Admitted, row.Phase, row.Result, row.Reason,
		row.Created, row.Ended, counted, row.Grouped, row.TaskGroups, row.RestartedFrom); err != nil {
		return err
	}
	names, err := sqldb.Marshal(n.secretNames)
	if err != nil {
		return err
	}
	if _, err := t.Exec(ctx, `INSERT INTO run_details (run_id, header, secret_names, annotations, created_by, secrets_by, source) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		row.ID, n.header, names, n.annotations, n.Actor, n.SecretsBy, n.source); err != nil {
		return err
	}
	if n.secrets != "" {
		if _, err := t.Exec(ctx, `INSERT INTO run_secrets (run_id, secrets) VALUES (?, ?)`, row.ID, t.Keys.Seal(sqldb.RunLabel(row.ID), n.secrets)); err != nil {
			return err
		}
	}
	if err := insertLookups(ctx, t, row, n.Spec); err != nil {
		return err
	}
	if err := insertTasks(ctx, t, row.ID, n); err != nil {
		return err
	}
	t.MarkChanged(row.ID)
	created := row.Event(row.Created)
	created.Action, created.Actor = run.ActionCreate, n.Actor
	t.Emit(created)
	if row.Phase.Final() {
		return nil
	}
	return t.Enqueue(ctx, row.ID, records.OutboxStart, 0)
}

// insertLookups writes the index rows by which lists find the run.
func insertLookups(ctx context.Context, t *sqldb.Tx, row *rows.Run, spec *run.Spec) error {
	if err := rows.InsertState(ctx, t, row); err != nil {
		return err
	}
	if err := insertNamed(ctx, t, `run_annotations`, row.ID, spec.Annotations); err != nil {
		return err
	}
	return insertNamed(ctx, t, `run_inputs`, row.ID, foundInputs(spec))
}

// foundInputs returns the values of inputs by which lists find a run: an index cannot have
// the longest ones.
func foundInputs(spec *run.Spec) map[string]string {
	found := maps.Clone(spec.InputValues)
	maps.DeleteFunc(found, func(_, value string) bool { return len(value) > run.MaxInputFilter })
	return found
}

// insertNamed writes a run's rows of a table of names and values.
func insertNamed(ctx context.Context, t *sqldb.Tx, table string, id run.ID, values map[string]string) error {
	names := slices.Sorted(maps.Keys(values))
	return sqldb.Bulk(ctx, t, `INSERT INTO `+table+` (name, value, run_id) VALUES `, `(?, ?, ?)`, ``, len(names),
		func(i int, args []any) []any { return append(args, names[i], values[names[i]], id) })
}

// deleteNamed deletes these rows.
func deleteNamed(ctx context.Context, t *sqldb.Tx, table string, id run.ID, values map[string]string) error {
	for name, value := range values {
		if _, err := t.Exec(ctx, `DELETE FROM `+table+` WHERE name = ? AND value = ? AND run_id = ?`, name, value, id); err != nil {
			return err
		}
	}
	return nil
}

func insertTasks(ctx context.Context, t *sqldb.Tx, id run.ID, n *newRun) error {
	if err := sqldb.Bulk(ctx, t, `INSERT INTO plan_pages (run_id, page, plan) VALUES `, `(?, ?, ?)`, ``, len(n.pages),
		func(i int, args []any) []any { return append(args, id, i, n.pages[i]) }); err != nil {
		return err
	}
	if err := sqldb.Bulk(ctx, t, `INSERT INTO task_specs (run_id, node, spec, matrix) VALUES `, `(?, ?, ?, ?)`, ``, len(n.nodes),
		func(i int, args []any) []any { return append(args, id, n.nodes[i], n.specs[i], n.matrices[i]) }); err != nil {
		return err
	}
	return sqldb.Bulk(ctx, t, `INSERT INTO tasks (run_id, number, node, name, spec_name, axis, pool, conditions, labels, finally) VALUES `, `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, ``, len(n.Tasks),
		func(i int, args []any) []any {
			x := n.Tasks[i]
			spec := n.Spec.Tasks[x.Spec]
			return append(args, id, i, x.Node, x.Name, x.Spec, n.axes[i], x.Pool, conditionsOf(spec), x.Labels, spec.Finally)
		})
}

// created returns the run as it was stored.
func (n *newRun) created(row *rows.Run) (run.Run, error) {
	header := *n.Spec
	out := row.Summary(&rows.RunDetails{Header: header, SecretNames: n.secretNames, Annotations: n.Spec.Annotations, CreatedBy: n.Actor})
	out.Tasks = make([]run.Task, len(n.Tasks))
	for i, x := range n.Tasks {
		t := rows.Task{Number: i, Node: x.Node, Name: x.Name, Pool: x.Pool, Labels: x.Labels, TaskState: rows.TaskState{Status: run.StatusNotStarted}}
		var err error
		if out.Tasks[i], err = t.Task(n.Spec.Tasks[x.Spec]); err != nil {
			return run.Run{}, err
		}
	}
	return out, nil
}
