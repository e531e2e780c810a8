package sqlstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// newRun is a run prepared outside of the transaction.
type newRun struct {
	records.NewRun
	header      string
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
	if n.header, err = marshal(header); err != nil {
		return nil, err
	}
	if n.secrets, err = secretsText(r.Spec.Secrets); err != nil {
		return nil, err
	}
	if n.annotations, err = marshal(r.Spec.Annotations); err != nil {
		return nil, err
	}
	for _, page := range run.SplitPlan(r.Plan, run.MaxPlanPage) {
		text, err := marshal(page)
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
			axis, err := marshal(t.Axis)
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
		matrix, err := marshal(bare.Matrix)
		if err != nil {
			return err
		}
		bare.Matrix = nil
		spec, err := marshal(bare)
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
		return run.Run{}, s.wrap("prepare a run", err)
	}
	var row *runRow
	var known run.ID
	err = s.withRunLocks(ctx, "create a run", func(t *tx, preempted []run.ID) error {
		var err error
		if known, err = t.lookupIdempotencyKey(ctx, r.IdempotencyKey); err != nil || known != "" {
			return err
		}
		row = &runRow{
			name: r.Spec.Name, group: r.Spec.Group, priority: cmp.Or(r.Spec.Priority, run.DefaultPriority),
			admission: cmp.Or(r.Spec.Admission, run.AdmissionAuto), phase: run.PhaseQueued, result: run.ResultUnknown,
			counts: counts{}, version: 1, grouped: len(r.Spec.ChangeGroups) > 0,
		}
		if len(r.Tasks) > 0 {
			row.counts[run.StatusNotStarted] = len(r.Tasks)
		}
		if len(r.Spec.SetupErrors) > 0 {
			row.phase = run.PhaseSetupError
		}
		if r.Restart != nil {
			row.restartedFrom = r.Restart.From
			preempted = append(preempted, r.Restart.From)
		}
		groups, err := t.lockRunsWithGroups(ctx, preempted)
		if err != nil {
			return err
		}
		if err := t.lockGroups(ctx, slices.Concat(groups, r.Spec.ChangeGroups, r.Token.Groups())); err != nil {
			return err
		}
		if err := t.checkToken(r.Token); err != nil {
			return err
		}
		if err := t.assignNumber(ctx, row, r.Time); err != nil {
			return err
		}
		// This comes first, since the rest is useless if it fails.
		if err := t.joinGroups(ctx, row, r.Spec.ChangeGroups); err != nil {
			return err
		}
		t.bumpVersions(r.Token.Groups()...)
		if err := t.insertRun(ctx, row, n); err != nil {
			return err
		}
		if r.Restart != nil {
			if err := t.restart(ctx, row, r.Restart, locksOf(t).runs[r.Restart.From]); err != nil {
				return err
			}
			t.bumpVersions(locksOf(t).members[r.Restart.From]...)
		}
		return t.storeIdempotencyKey(ctx, r.IdempotencyKey, row.id)
	})
	switch {
	case err != nil:
		return run.Run{}, err
	case known != "":
		return s.replay(ctx, known)
	}
	if r.Restart != nil {
		return s.GetRun(ctx, row.id)
	}
	return n.created(row)
}

// joinGroups adds a new run to its change groups, which are locked.
func (t *tx) joinGroups(ctx context.Context, r *runRow, groups []string) error {
	if len(groups) == 0 {
		return nil
	}
	groups = slices.Compact(slices.Sorted(slices.Values(groups)))
	at := slotDone
	switch {
	case r.phase.Final():
	case r.admission == run.AdmissionManual:
		at = slotNotStarted
	default:
		admitted, err := t.tryAdmit(ctx, groups, queueKey{id: r.id, priority: r.priority, since: t.now})
		if err != nil {
			return err
		}
		at = slotWaiting
		if admitted {
			at = slotHolding
		}
	}
	t.bumpVersions(groups...)
	return bulk(ctx, t, `INSERT INTO run_changegroups (name, run_id, state, priority, since) VALUES `, `(?, ?, ?, ?, ?)`, ``, len(groups),
		func(i int, args []any) []any { return append(args, groups[i], r.id, at, r.priority, t.now) })
}

// assignNumber assigns the run its counter, id and time. It locks the row of the
// counter, so that ids and counters of a group root are in the same order.
func (t *tx) assignNumber(ctx context.Context, row *runRow, at time.Time) error {
	root := run.GroupRoot(row.group)
	var last run.ID
	if err := t.QueryRow(ctx, `INSERT INTO counters (root, counter) VALUES (?, 1)
		ON CONFLICT (root) DO UPDATE SET counter = counters.counter + 1 RETURNING counter, last_id`, root).Scan(&row.counter, &last); err != nil {
		return err
	}
	created := toTime(t.now)
	if !at.IsZero() {
		created = at.UTC()
	}
	var err error
	if row.id, err = nextID(last, created, !at.IsZero()); err != nil {
		return err
	}
	stamp, err := idTime(row.id)
	if err != nil {
		return err
	}
	// The time of a run and that of its id are the same, to the millisecond.
	if created.Before(stamp) {
		created = stamp
	}
	row.created = fromTime(created)
	if row.phase.Final() {
		row.ended = row.created
	}
	if row.id > last {
		_, err = t.Exec(ctx, `UPDATE counters SET last_id = ? WHERE root = ?`, row.id, root)
	}
	return err
}

func (t *tx) insertRun(ctx context.Context, row *runRow, n *newRun) error {
	counted, err := marshal(row.counts)
	if err != nil {
		return err
	}
	if _, err := t.Exec(ctx, `INSERT INTO runs (id, name, group_path, counter, priority, admission, admitted, phase, result, reason,
		created_at, ended_at, counts, grouped, restarted_from) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		row.id, row.name, row.group, row.counter, row.priority, row.admission, row.admitted, row.phase, row.result, row.reason,
		row.created, row.ended, counted, row.grouped, row.restartedFrom); err != nil {
		return err
	}
	names, err := marshal(n.secretNames)
	if err != nil {
		return err
	}
	if _, err := t.Exec(ctx, `INSERT INTO run_details (run_id, header, secret_names, annotations) VALUES (?, ?, ?, ?)`,
		row.id, n.header, names, n.annotations); err != nil {
		return err
	}
	if n.secrets != "" {
		if _, err := t.Exec(ctx, `INSERT INTO run_secrets (run_id, secrets) VALUES (?, ?)`, row.id, t.keys.Seal(runLabel(row.id), n.secrets)); err != nil {
			return err
		}
	}
	if err := t.insertLookups(ctx, row, n.Spec.Annotations); err != nil {
		return err
	}
	if err := t.insertTasks(ctx, row.id, n); err != nil {
		return err
	}
	t.markChanged(row.id)
	t.emit(row.event(row.created))
	if row.phase.Final() {
		return nil
	}
	return t.enqueue(ctx, row.id, records.OutboxStart, 0)
}

// insertLookups writes the index rows by which lists find the run.
func (t *tx) insertLookups(ctx context.Context, row *runRow, annotations map[string]string) error {
	if err := t.insertState(ctx, row); err != nil {
		return err
	}
	return t.insertAnnotations(ctx, row.id, annotations)
}

func (t *tx) insertAnnotations(ctx context.Context, id run.ID, annotations map[string]string) error {
	keys := slices.Sorted(maps.Keys(annotations))
	return bulk(ctx, t, `INSERT INTO run_annotations (name, value, run_id) VALUES `, `(?, ?, ?)`, ``, len(keys),
		func(i int, args []any) []any { return append(args, keys[i], annotations[keys[i]], id) })
}

func (t *tx) insertTasks(ctx context.Context, id run.ID, n *newRun) error {
	if err := bulk(ctx, t, `INSERT INTO plan_pages (run_id, page, plan) VALUES `, `(?, ?, ?)`, ``, len(n.pages),
		func(i int, args []any) []any { return append(args, id, i, n.pages[i]) }); err != nil {
		return err
	}
	if err := bulk(ctx, t, `INSERT INTO task_specs (run_id, node, spec, matrix) VALUES `, `(?, ?, ?, ?)`, ``, len(n.nodes),
		func(i int, args []any) []any { return append(args, id, n.nodes[i], n.specs[i], n.matrices[i]) }); err != nil {
		return err
	}
	return bulk(ctx, t, `INSERT INTO tasks (run_id, number, node, name, spec_name, axis, pool) VALUES `, `(?, ?, ?, ?, ?, ?, ?)`, ``, len(n.Tasks),
		func(i int, args []any) []any {
			x := n.Tasks[i]
			return append(args, id, i, x.Node, x.Name, x.Spec, n.axes[i], x.Pool)
		})
}

// created returns the run as it was stored.
func (n *newRun) created(row *runRow) (run.Run, error) {
	header := *n.Spec
	out := row.summary(&runDetails{header: header, secretNames: n.secretNames, annotations: n.Spec.Annotations})
	out.Tasks = make([]run.Task, len(n.Tasks))
	for i, x := range n.Tasks {
		t := taskRow{number: i, node: x.Node, name: x.Name, pool: x.Pool, taskState: taskState{status: run.StatusNotStarted}}
		var err error
		if out.Tasks[i], err = t.task(n.Spec.Tasks[x.Spec]); err != nil {
			return run.Run{}, err
		}
	}
	return out, nil
}
