package rows

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// Run is a row of the table runs.
type Run struct {
	ID            run.ID
	Name          string
	Group         string
	Counter       int64
	Priority      int
	Admission     run.Admission
	Admitted      bool
	Phase         run.Phase
	Result        run.Result
	Reason        string
	StopRequested bool
	Created       int64
	Started       int64
	Ended         int64
	RestartedFrom run.ID
	Counts        Counts
	Approved      []int
	Version       int64
	Grouped       bool // it has change groups
	TaskGroups    bool // tasks of it have
}

// RunColumns are the columns that Run.Scan reads, of the table runs with the alias r.
const RunColumns = `r.id, r.name, r.group_path, r.counter, r.priority, r.admission, r.admitted, r.phase, r.result, r.reason,
	r.stop_requested, r.created_at, r.started_at, r.ended_at, r.restarted_from, r.counts, r.approved, r.version, r.grouped, r.task_groups`

// Counts holds the numbers of a run's tasks by status, without zeros.
type Counts map[run.Status]int

// Move counts a task that changed from one status to another.
func (c Counts) Move(from, to run.Status) {
	if c[from]--; c[from] <= 0 {
		delete(c, from)
	}
	c[to]++
}

// Open returns how many tasks are not final.
func (c Counts) Open() int {
	n := 0
	for status, count := range c {
		if !status.Final() {
			n += count
		}
	}
	return n
}

// Scan reads RunColumns, and more after them.
func (r *Run) Scan(row sqldb.Scanner, more ...any) error {
	var counted, approved string
	dest := []any{
		&r.ID, &r.Name, &r.Group, &r.Counter, &r.Priority, &r.Admission, &r.Admitted, &r.Phase, &r.Result, &r.Reason,
		&r.StopRequested, &r.Created, &r.Started, &r.Ended, &r.RestartedFrom, &counted, &approved, &r.Version, &r.Grouped, &r.TaskGroups,
	}
	if err := row.Scan(append(dest, more...)...); err != nil {
		return err
	}
	r.Counts, r.Approved = nil, nil
	if err := sqldb.Unmarshal(counted, &r.Counts); err != nil {
		return err
	}
	return sqldb.Unmarshal(approved, &r.Approved)
}

// LockRun reads a run and keeps others from changing it or its tasks until the
// transaction ends.
func LockRun(ctx context.Context, t *sqldb.Tx, id run.ID) (*Run, error) {
	var r Run
	err := r.Scan(t.QueryRow(ctx, `SELECT `+RunColumns+` FROM runs r WHERE r.id = ?`+t.Dialect.ForUpdate, id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, RunNotFound(id)
	}
	return &r, err
}

// SaveRun writes a locked run as a new version. prev is the run as it was read:
// indexed columns are written only if they changed.
func SaveRun(ctx context.Context, t *sqldb.Tx, prev, r *Run) error {
	r.Version++
	observeRun(t, prev, r)
	counted, err := sqldb.Marshal(r.Counts)
	if err != nil {
		return err
	}
	t.MarkChanged(r.ID)
	if prev.Phase == r.Phase && prev.Result == r.Result && prev.Reason == r.Reason && len(prev.Approved) == len(r.Approved) &&
		prev.Admitted == r.Admitted && prev.StopRequested == r.StopRequested {
		_, err = t.Exec(ctx, `UPDATE runs SET counts = ?, version = ? WHERE id = ?`, counted, r.Version, r.ID)
		return err
	}
	if err := moveState(ctx, t, prev, r); err != nil {
		return err
	}
	if err := insertWarnings(ctx, t, prev, r); err != nil {
		return err
	}
	approved := ""
	if len(r.Approved) > 0 {
		if approved, err = sqldb.Marshal(r.Approved); err != nil {
			return err
		}
	}
	_, err = t.Exec(ctx, `UPDATE runs SET counts = ?, version = ?, admitted = ?, phase = ?, result = ?, reason = ?, stop_requested = ?,
		started_at = ?, ended_at = ?, approved = ? WHERE id = ?`,
		counted, r.Version, r.Admitted, r.Phase, r.Result, r.Reason, r.StopRequested, r.Started, r.Ended, approved, r.ID)
	return err
}

// Clone returns a deep copy.
func (r *Run) Clone() *Run {
	c := *r
	c.Counts = maps.Clone(r.Counts)
	c.Approved = append([]int(nil), r.Approved...)
	return &c
}

// RunDetails is a row of the table run_details.
type RunDetails struct {
	Header      run.Spec
	SecretNames []string
	Annotations map[string]string
	CreatedBy   string
	restartedAs []run.ID
}

// DetailColumns are the columns that DetailScan reads, of the table run_details
// with the alias d.
const DetailColumns = `d.header, d.secret_names, d.annotations, d.restarted_as, d.created_by`

// DetailScan reads DetailColumns as texts, which parse decodes.
type DetailScan struct{ header, secretNames, annotations, restartedAs, createdBy string }

// Dest returns the destinations of DetailColumns.
func (d *DetailScan) Dest() []any {
	return []any{&d.header, &d.secretNames, &d.annotations, &d.restartedAs, &d.createdBy}
}

// Parse decodes what was read.
func (d *DetailScan) Parse() (RunDetails, error) {
	out := RunDetails{CreatedBy: d.createdBy}
	if err := sqldb.Unmarshal(d.header, &out.Header); err != nil {
		return out, err
	}
	if err := sqldb.Unmarshal(d.secretNames, &out.SecretNames); err != nil {
		return out, err
	}
	if err := sqldb.Unmarshal(d.restartedAs, &out.restartedAs); err != nil {
		return out, err
	}
	return out, sqldb.Unmarshal(d.annotations, &out.Annotations)
}

// Summary returns the run as lists show it.
func (r *Run) Summary(d *RunDetails) run.Run {
	return run.Run{
		ID: r.ID, Counter: r.Counter, Name: r.Name, Group: r.Group, ChangeGroups: d.Header.ChangeGroups,
		Priority: r.Priority, Admission: r.Admission, Phase: r.Phase, Result: r.Result, Reason: r.Reason,
		Annotations: d.Annotations, Environment: d.Header.Environment, InputValues: d.Header.TypedInputs(), SecretNames: d.SecretNames,
		SetupErrors: d.Header.SetupErrors, CreatedAt: sqldb.ToTime(r.Created), StartedAt: sqldb.ToTime(r.Started),
		EndedAt: sqldb.ToTime(r.Ended), RestartedFrom: r.RestartedFrom, RestartedAs: d.restartedAs, CreatedBy: d.CreatedBy, StopRequested: r.StopRequested, Version: r.Version, TaskCounts: map[run.Status]int(r.Counts),
	}
}

// Event returns the event of the run's phase.
func (r *Run) Event(at int64) run.Event {
	e := run.Event{
		Type: run.EventRun, Time: sqldb.ToTime(at), Run: r.ID, Group: r.Group, Phase: r.Phase, Result: r.Result, Reason: r.Reason,
	}
	if r.Phase.Final() {
		e.FailedTasks = new(r.Counts[run.StatusFailed])
	}
	return e
}

// Progress returns what the workflow of a run reads of it.
func (r *Run) Progress() run.Progress {
	return run.Progress{Phase: r.Phase, Result: r.Result, StopRequested: r.StopRequested, Approved: slices.Clone(r.Approved)}
}

// WrongPhase is the error of a call that the phase of a run does not permit.
func WrongPhase(r *Run, why string) error {
	return run.Errorf(run.CodeWrongPhase, "run %s is %s: %s", r.ID, r.Phase, why)
}

// RunNotFound is the error of a run that does not exist.
func RunNotFound(id run.ID) error {
	return run.Errorf(run.CodeNotFound, "there is no run %s", id)
}
