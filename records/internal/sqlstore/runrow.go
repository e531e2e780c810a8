package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/drover-run/drover/run"
)

// runRow is a row of the table runs.
type runRow struct {
	id            run.ID
	name          string
	group         string
	counter       int64
	priority      int
	admission     run.Admission
	admitted      bool
	phase         run.Phase
	result        run.Result
	reason        string
	stopRequested bool
	created       int64
	started       int64
	ended         int64
	restartedFrom run.ID
	counts        counts
	approved      []int
	version       int64
	grouped       bool // it has change groups
}

const runColumns = `r.id, r.name, r.group_path, r.counter, r.priority, r.admission, r.admitted, r.phase, r.result, r.reason,
	r.stop_requested, r.created_at, r.started_at, r.ended_at, r.restarted_from, r.counts, r.approved, r.version, r.grouped`

// counts holds the numbers of a run's tasks by status, without zeros.
type counts map[run.Status]int

func (c counts) move(from, to run.Status) {
	if c[from]--; c[from] <= 0 {
		delete(c, from)
	}
	c[to]++
}

// open returns how many tasks are not final.
func (c counts) open() int {
	n := 0
	for status, count := range c {
		if !status.Final() {
			n += count
		}
	}
	return n
}

type scanner interface{ Scan(dest ...any) error }

// scan reads runColumns, and more after them.
func (r *runRow) scan(row scanner, more ...any) error {
	var counted, approved string
	dest := []any{
		&r.id, &r.name, &r.group, &r.counter, &r.priority, &r.admission, &r.admitted, &r.phase, &r.result, &r.reason,
		&r.stopRequested, &r.created, &r.started, &r.ended, &r.restartedFrom, &counted, &approved, &r.version, &r.grouped,
	}
	if err := row.Scan(append(dest, more...)...); err != nil {
		return err
	}
	r.counts, r.approved = nil, nil
	if err := unmarshal(counted, &r.counts); err != nil {
		return err
	}
	return unmarshal(approved, &r.approved)
}

// lockRun reads a run and keeps others from changing it or its tasks until the
// transaction ends.
func (t *tx) lockRun(ctx context.Context, id run.ID) (*runRow, error) {
	var r runRow
	err := r.scan(t.QueryRow(ctx, `SELECT `+runColumns+` FROM runs r WHERE r.id = ?`+t.dialect.ForUpdate, id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, runNotFound(id)
	}
	return &r, err
}

// saveRun writes a locked run as a new version. prev is the run as it was read:
// indexed columns are written only if they changed.
func (t *tx) saveRun(ctx context.Context, prev, r *runRow) error {
	r.version++
	t.observeRun(prev, r)
	counted, err := marshal(r.counts)
	if err != nil {
		return err
	}
	t.markChanged(r.id)
	if prev.phase == r.phase && prev.result == r.result && prev.reason == r.reason && len(prev.approved) == len(r.approved) &&
		prev.admitted == r.admitted && prev.stopRequested == r.stopRequested {
		_, err = t.Exec(ctx, `UPDATE runs SET counts = ?, version = ? WHERE id = ?`, counted, r.version, r.id)
		return err
	}
	if err := t.moveState(ctx, prev, r); err != nil {
		return err
	}
	approved := ""
	if len(r.approved) > 0 {
		if approved, err = marshal(r.approved); err != nil {
			return err
		}
	}
	_, err = t.Exec(ctx, `UPDATE runs SET counts = ?, version = ?, admitted = ?, phase = ?, result = ?, reason = ?, stop_requested = ?,
		started_at = ?, ended_at = ?, approved = ? WHERE id = ?`,
		counted, r.version, r.admitted, r.phase, r.result, r.reason, r.stopRequested, r.started, r.ended, approved, r.id)
	return err
}

// clone returns a deep copy.
func (r *runRow) clone() *runRow {
	c := *r
	c.counts = maps.Clone(r.counts)
	c.approved = append([]int(nil), r.approved...)
	return &c
}

// runDetails is a row of the table run_details.
type runDetails struct {
	header      run.Spec
	secretNames []string
	annotations map[string]string
	restartedAs []run.ID
}

const detailColumns = `d.header, d.secret_names, d.annotations, d.restarted_as`

// detailScan reads detailColumns as texts, which parse decodes.
type detailScan struct{ header, secretNames, annotations, restartedAs string }

func (d *detailScan) dest() []any {
	return []any{&d.header, &d.secretNames, &d.annotations, &d.restartedAs}
}

func (d *detailScan) parse() (runDetails, error) {
	var out runDetails
	if err := unmarshal(d.header, &out.header); err != nil {
		return out, err
	}
	if err := unmarshal(d.secretNames, &out.secretNames); err != nil {
		return out, err
	}
	if err := unmarshal(d.restartedAs, &out.restartedAs); err != nil {
		return out, err
	}
	return out, unmarshal(d.annotations, &out.annotations)
}

// summary returns the run as lists show it.
func (r *runRow) summary(d *runDetails) run.Run {
	return run.Run{
		ID: r.id, Counter: r.counter, Name: r.name, Group: r.group, ChangeGroups: d.header.ChangeGroups,
		Priority: r.priority, Admission: r.admission, Phase: r.phase, Result: r.result, Reason: r.reason,
		Annotations: d.annotations, Environment: d.header.Environment, SecretNames: d.secretNames,
		SetupErrors: d.header.SetupErrors, CreatedAt: toTime(r.created), StartedAt: toTime(r.started),
		EndedAt: toTime(r.ended), RestartedFrom: r.restartedFrom, RestartedAs: d.restartedAs, Version: r.version, TaskCounts: map[run.Status]int(r.counts),
	}
}

func (r *runRow) event(at int64) run.Event {
	return run.Event{
		Type: run.EventRun, Time: toTime(at), Run: r.id, Group: r.group, Phase: r.phase, Result: r.result, Reason: r.reason,
	}
}

func marshal(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode %T: %w", v, err)
	}
	return string(b), nil
}

// unmarshal decodes JSON text; "" leaves v unchanged.
func unmarshal(text string, v any) error {
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return fmt.Errorf("decode a stored %T: %w", v, err)
	}
	return nil
}
