package executors

import (
	"context"

	"github.com/drover-run/drover/records/internal/sqlstore/rows"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// bindFleet determines which instance of which fleet an executor is. The gateway
// reads that from the executor's token. An executor that is an instance stays
// that instance when it registers as another or as none: else it would escape
// the bound of its uses, and its removal with the instance. Labels prove
// nothing.
func bindFleet(ctx context.Context, t *sqldb.Tx, e *run.Executor, known *ExecutorRow) error {
	kept, err := keepInstance(ctx, t, e, known)
	if err != nil {
		return err
	}
	f, err := findFleet(ctx, t, e.Fleet)
	if err != nil {
		return err
	}
	if f == nil || !kept && f.Spec.Pool != e.Pool {
		f, e.Fleet, e.Instance = nil, "", ""
	}
	if err := checkFleetLabel(ctx, t, e); err != nil {
		return err
	}
	if e.MaxUses = 0; f != nil {
		e.MaxUses = f.Spec.MaxUseCount
		t.MarkChanged(run.ID(sqldb.FleetKey + f.Name))
	}
	return nil
}

// keepInstance reports whether an executor stays the instance that it is.
// Errors: conflict (it registers as another instance, or for another pool).
func keepInstance(ctx context.Context, t *sqldb.Tx, e *run.Executor, known *ExecutorRow) (bool, error) {
	if known == nil || known.Fleet == "" {
		return false, nil
	}
	f, err := findFleet(ctx, t, known.Fleet)
	if err != nil || f == nil {
		return false, err
	}
	if e.Fleet != "" && (e.Fleet != known.Fleet || e.Instance != known.Instance) {
		active, err := instanceActive(ctx, t, known.Fleet, known.Instance)
		if err == nil && active {
			err = run.Errorf(run.CodeConflict, "executor %s is instance %s of fleet %s, not instance %s of fleet %s",
				e.ID, known.Instance, known.Fleet, e.Instance, e.Fleet)
		}
		return false, err
	}
	if e.Pool != known.Pool && e.Pool != f.Spec.Pool {
		return false, run.Errorf(run.CodeConflict, "executor %s is an instance of fleet %s, which serves pool %s and not pool %s",
			e.ID, known.Fleet, f.Spec.Pool, e.Pool)
	}
	e.Fleet, e.Instance, e.Temporary = known.Fleet, known.Instance, e.Temporary || known.Temporary
	return true, nil
}

// checkFleetLabel refuses an executor whose labels name a fleet of its pool to
// which its token is not bound. The fleet would take its machine for one
// without an executor, and delete the machine while tasks run on it.
func checkFleetLabel(ctx context.Context, t *sqldb.Tx, e *run.Executor) error {
	name := e.Labels[run.LabelFleet]
	if name == "" || name == e.Fleet {
		return nil
	}
	f, err := findFleet(ctx, t, name)
	if err == nil && f != nil && f.Spec.Pool == e.Pool {
		err = run.Errorf(run.CodeInvalid, "the labels of executor %s name fleet %s, to which its token is not bound", e.ID, name)
	}
	return err
}

// findFleet reads a fleet that was not deleted, nil for none.
func findFleet(ctx context.Context, t *sqldb.Tx, name string) (*rows.Fleet, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // none is an answer
	}
	f, err := rows.ExistingFleet(ctx, t, t.Keys, name, "")
	if run.CodeOf(err) == run.CodeNotFound {
		return nil, nil //nolint:nilnil // none is an answer
	}
	return f, err
}

// renewalReply returns the reply to a renewal, without the demand.
func renewalReply(ctx context.Context, t *sqldb.Tx, e *ExecutorRow, r run.Renewal) (run.DesiredState, error) {
	w := run.DesiredState{Drain: e.drainRequested, Fleet: e.Fleet, Instance: e.Instance}
	if !r.Expiring || e.Fleet == "" {
		return w, nil
	}
	active, err := instanceActive(ctx, t, e.Fleet, e.Instance)
	w.Gone = !active
	return w, err
}

// instanceActive reports whether a fleet has an instance that is not being
// deleted.
func instanceActive(ctx context.Context, q sqldb.Querier, fleet, instance string) (active bool, err error) {
	err = q.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM fleet_instances WHERE fleet = ? AND instance = ?
		AND state <> 'gone' AND state <> 'deleting' AND state <> 'ignored')`, fleet, instance).Scan(&active)
	return active, err
}
