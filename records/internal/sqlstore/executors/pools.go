package executors

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

const poolColumns = `name, driver, os, arch, labels, privileged, shared, is_default, flavor, kubernetes, exec_policy, max_running, allowed_groups, images, volumes, host_paths, devices`

func scanPool(row sqldb.Scanner) (run.Pool, error) {
	var p run.Pool
	var labels, flavor, kubernetes, groups, images, volumes, paths, devices string
	if err := row.Scan(&p.Name, &p.Driver, &p.OS, &p.Arch, &labels, &p.Privileged, &p.Shared, &p.Default, &flavor, &kubernetes, &p.Exec, &p.MaxRunning, &groups, &images, &volumes, &paths, &devices); err != nil {
		return p, err
	}
	err := errors.Join(sqldb.Unmarshal(labels, &p.Labels), sqldb.Unmarshal(flavor, &p.Flavor), sqldb.Unmarshal(kubernetes, &p.Kubernetes),
		sqldb.Unmarshal(groups, &p.AllowedGroups), sqldb.Unmarshal(images, &p.Images), sqldb.Unmarshal(volumes, &p.AllowedVolumes),
		sqldb.Unmarshal(paths, &p.AllowedHostPaths), sqldb.Unmarshal(devices, &p.AllowedDevices))
	p.Flavor.Weight = 0 // of an earlier version, which accepted it
	return p, err
}

// ReadPool reads a pool without computed fields. Errors: not_found.
func ReadPool(ctx context.Context, q sqldb.Querier, name, lock string) (run.Pool, error) {
	p, err := scanPool(q.QueryRow(ctx, `SELECT `+poolColumns+` FROM pools WHERE name = ?`+lock, name))
	if errors.Is(err, sql.ErrNoRows) {
		return p, run.Errorf(run.CodeNotFound, "there is no pool %s", name)
	}
	return p, err
}

// ensurePool creates the pool of an executor, or checks that they fit. The pool
// is locked until the transaction ends. The labels of the executor are its own: other
// executors of the pool may lack them.
func ensurePool(ctx context.Context, t *sqldb.Tx, e run.Executor) error {
	if _, err := t.Exec(ctx, `INSERT INTO pools (name, driver, os, arch, labels, privileged, is_default) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`, e.Pool, e.Driver, e.OS, e.Arch, "", e.Privileged, false); err != nil {
		return err
	}
	p, err := ReadPool(ctx, t, e.Pool, t.Dialect.ForUpdate)
	if err != nil {
		return err
	}
	if faults := poolFaults(e, p); len(faults) > 0 {
		return run.InvalidError(fmt.Sprintf("executor %s does not fit pool %s: %s: %s", e.ID, e.Pool, faults[0].Path, faults[0].Detail), faults)
	}
	return nil
}

// poolFaults returns the contradictions between an executor and its pool.
func poolFaults(e run.Executor, p run.Pool) (faults []run.Fault) {
	differ := func(what, executors, pools string) {
		if pools != "" && executors != pools {
			faults = append(faults, run.Fault{Path: what, Code: run.CodeInvalid, Detail: fmt.Sprintf("it is %s, and pool %s is for %s", executors, p.Name, pools)})
		}
	}
	differ("driver", e.Driver, p.Driver)
	differ("os", e.OS, p.OS)
	differ("arch", e.Arch, p.Arch)
	return faults
}

// ListPools implements records.Store.
func (s *Store) ListPools(ctx context.Context) ([]run.Pool, error) {
	var out []run.Pool
	err := s.db.Read(ctx, "list pools", func(q sqldb.Querier) (err error) {
		out, err = s.pools(ctx, q, "")
		return err
	})
	return out, err
}

// GetPool implements records.Store.
func (s *Store) GetPool(ctx context.Context, name string) (out run.Pool, err error) {
	err = s.db.Read(ctx, "read a pool", func(q sqldb.Querier) error {
		out, err = s.pool(ctx, q, name)
		return err
	})
	return out, err
}

// ChoosePools implements records.Store.
func (s *Store) ChoosePools(ctx context.Context) (pools []run.Pool, executors []run.Executor, err error) {
	err = s.db.Read(ctx, "read the pools and executors", func(q sqldb.Querier) error {
		all, err := readServing(ctx, q, s.db.Now().UnixNano())
		if err != nil {
			return err
		}
		executors = all.executors
		pools, err = readPools(ctx, q, "", all)
		return err
	})
	return pools, executors, err
}

func (s *Store) pool(ctx context.Context, q sqldb.Querier, name string) (run.Pool, error) {
	found, err := s.pools(ctx, q, name)
	switch {
	case err != nil:
		return run.Pool{}, err
	case len(found) == 0:
		return run.Pool{}, run.Errorf(run.CodeNotFound, "there is no pool %s", name)
	}
	return found[0], nil
}

// pools reads all pools, or the one with a name, with the computed fields.
func (s *Store) pools(ctx context.Context, q sqldb.Querier, name string) ([]run.Pool, error) {
	now := s.db.Now().UnixNano()
	executors, err := s.serving(ctx, q, now)
	if err != nil {
		return nil, err
	}
	out, err := readPools(ctx, q, name, executors)
	if err != nil {
		return nil, err
	}
	counts, err := s.countTasks(ctx, q, name, now)
	if err != nil {
		return nil, err
	}
	for i := range out {
		p := &out[i]
		n := counts[p.Name]
		p.Queued, p.Running = n.queued, n.running
		if n.started > 0 {
			p.MeanElapsed = max(0, time.Duration(now-n.started))
		}
	}
	return out, nil
}

// readPools reads all pools, or the one with a name, with the computed fields except for
// the counts of tasks.
func readPools(ctx context.Context, q sqldb.Querier, name string, executors serving) ([]run.Pool, error) {
	var out []run.Pool
	index := make(map[string]int)
	where, args := ``, []any(nil)
	if name != "" {
		where, args = ` WHERE name = ?`, []any{name}
	}
	err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		p, err := scanPool(row)
		index[p.Name] = len(out)
		out = append(out, p)
		return err
	}, `SELECT `+poolColumns+` FROM pools`+where+` ORDER BY name`, args...)
	if err != nil {
		return nil, err
	}
	if err := eachFleetGroups(ctx, q, func(pool string, f run.FleetGroups) {
		if i, ok := index[pool]; ok {
			out[i].FleetGroups = append(out[i].FleetGroups, f)
		}
	}); err != nil {
		return nil, err
	}
	for i := range out {
		p := &out[i]
		e := executors.pools[p.Name]
		p.Online, p.Draining, p.Offline, p.Slots, p.SlotsUsed, p.Features = e.Online, e.Draining, e.Offline, e.Slots, e.SlotsUsed, e.Features
	}
	// The machines of a fleet that has none yet may be of any kind.
	err = sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var pool string
		err := row.Scan(&pool)
		if i, ok := index[pool]; ok {
			out[i].Features = nil
		}
		return err
	}, `SELECT pool FROM fleets f WHERE mode <> ? AND NOT EXISTS
		(SELECT 1 FROM executors e WHERE e.fleet = f.name AND e.pool = f.pool AND NOT e.removed)`, run.FleetDeleted)
	return out, err
}

// taskCounts are the counts of the tasks of a pool.
type taskCounts struct {
	queued  int
	running int
	started int64 // when the running tasks started, on average; 0 if none has
}

// countTasks counts the queued and running tasks of all pools, or of the one with a name.
func (s *Store) countTasks(ctx context.Context, q sqldb.Querier, name string, now int64) (map[string]taskCounts, error) {
	return s.tasks.Of(ctx, name, now, func(map[string]taskCounts) (map[string]taskCounts, bool, error) {
		where, args := ``, []any(nil)
		if name != "" {
			where, args = ` AND pool = ?`, []any{name}
		}
		counts, total := map[string]taskCounts{}, 0
		err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
			var pool string
			var n taskCounts
			var started float64
			err := row.Scan(&pool, &n.queued, &n.running, &started)
			n.started = int64(started)
			counts[pool] = n
			total += n.queued + n.running
			return err
		}, `SELECT pool, count(CASE WHEN status = 'queued' THEN 1 END), count(CASE WHEN status = 'running' THEN 1 END),
			coalesce(CAST(avg(CASE WHEN status = 'running' AND started_at > 0 THEN started_at END) AS DOUBLE PRECISION), 0)
			FROM tasks WHERE status IN ('queued', 'running')`+where+` GROUP BY pool`, args...)
		return counts, total > MaxCounted, err
	})
}

// eachFleetGroups calls add with the groups of each fleet that does not allow all of
// them, in the order of names, for each pool that has its machines: the executors of a
// fleet that moved to another pool stay where they are.
func eachFleetGroups(ctx context.Context, q sqldb.Querier, add func(pool string, f run.FleetGroups)) error {
	return sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var f run.FleetGroups
		var pool, groups string
		if err := row.Scan(&f.Fleet, &pool, &groups); err != nil {
			return err
		}
		err := sqldb.Unmarshal(groups, &f.AllowedGroups)
		if !slices.Contains(f.AllowedGroups, run.AllGroups) {
			add(pool, f)
		}
		return err
	}, `SELECT name, pool, allowed_groups FROM fleets WHERE allowed_groups <> '' AND mode <> ?
		UNION SELECT f.name, e.pool, f.allowed_groups FROM executors e JOIN fleets f ON f.name = e.fleet
			WHERE f.allowed_groups <> '' AND f.mode <> ? AND NOT e.removed
		ORDER BY name`, run.FleetDeleted, run.FleetDeleted)
}

// PutPool implements records.Store.
func (s *Store) PutPool(ctx context.Context, p run.Pool) (out run.Pool, created bool, err error) {
	texts := make([]string, 3)
	for i, v := range []any{p.Labels, p.Flavor, p.Kubernetes} {
		if texts[i], err = sqldb.Marshal(v); err != nil {
			return out, false, s.db.Wrap("put a pool", err)
		}
	}
	err = s.db.Write(ctx, "put a pool", func(t *sqldb.Tx) error {
		// A default replaces another, so concurrent calls must see each other.
		if t.Dialect.LockPools != "" {
			if _, err := t.Exec(ctx, t.Dialect.LockPools); err != nil {
				return err
			}
		}
		prev, err := ReadPool(ctx, t, p.Name, t.Dialect.ForUpdate)
		if created = run.CodeOf(err) == run.CodeNotFound; err != nil && !created {
			return err
		}
		if !created && prev.Driver != p.Driver && prev.Container() != p.Container() {
			if err := checkPoolIdle(ctx, t, p.Name, "cannot change from "+prev.Driver+" to "+p.Driver); err != nil {
				return err
			}
		}
		if err := checkExecutorsFit(ctx, t, p); err != nil {
			return err
		}
		if p.Default {
			if err := clearDefault(ctx, t, p); err != nil {
				return err
			}
		}
		groups, images, err := restrictions(p, prev)
		if err != nil {
			return err
		}
		allowed, err := allowedOnHosts(p, prev)
		if err != nil {
			return err
		}
		if _, err := t.Exec(ctx, `INSERT INTO pools (`+poolColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET driver = excluded.driver, os = excluded.os, arch = excluded.arch, labels = excluded.labels,
			privileged = excluded.privileged, shared = excluded.shared, is_default = excluded.is_default, flavor = excluded.flavor, kubernetes = excluded.kubernetes,
			exec_policy = excluded.exec_policy, max_running = excluded.max_running, allowed_groups = excluded.allowed_groups, images = excluded.images, volumes = excluded.volumes,
			host_paths = excluded.host_paths, devices = excluded.devices`,
			p.Name, p.Driver, p.OS, p.Arch, texts[0], p.Privileged, p.Shared, p.Default, texts[1], texts[2], p.Exec, p.MaxRunning, groups, images,
			allowed.volumes, allowed.hostPaths, allowed.devices); err != nil {
			return err
		}
		out, err = s.pool(ctx, t, p.Name)
		return err
	})
	return out, created, err
}

// restrictions returns the groups and images that a pool allows, as JSON. A client of an
// earlier version does not know them, and must not open the pool to all, nor pull from
// elsewhere. A pool that runs no containers has no images.
func restrictions(p, prev run.Pool) (groups, images string, err error) {
	if len(p.AllowedGroups) == 0 {
		p.AllowedGroups = prev.AllowedGroups
	}
	if groups, err = sqldb.Marshal(p.AllowedGroups); err != nil || !p.Container() {
		return groups, "", err
	}
	if len(p.Images.Allowed) == 0 {
		p.Images.Allowed = prev.Images.Allowed
	}
	if len(p.Images.AllowedServices) == 0 {
		p.Images.AllowedServices = prev.Images.AllowedServices
	}
	if len(p.Images.PullPolicies) == 0 {
		p.Images.PullPolicies = prev.Images.PullPolicies
	}
	if p.Images.Rewrites == nil {
		p.Images.Rewrites = prev.Images.Rewrites
	}
	if p.Images.Registries == nil {
		p.Images.Registries = prev.Images.Registries
	}
	// A client that gives the list learns this before.
	if policies := p.Images.PullPolicies; p.Shared && len(policies) > 0 && !slices.Contains(policies, run.PullAlways) {
		return "", "", run.InvalidError("the pool is not valid", []run.Fault{{
			Path: "allowed_pull_policies", Code: run.FaultContradiction,
			Detail: "a shared pool pulls images always, and the list of this pool does not have " + string(run.PullAlways) + ": give the list again",
		}})
	}
	images, err = sqldb.Marshal(p.Images)
	return groups, images, err
}

// allowedHere is what tasks of a pool may have of their hosts, as JSON.
type allowedHere struct{ volumes, hostPaths, devices string }

// allowedOnHosts returns the persistent volumes, and the paths and devices of hosts, that a pool
// allows. A client of an earlier version does not know them, and must not remove them. Only
// pools on docker have them.
func allowedOnHosts(p, prev run.Pool) (a allowedHere, err error) {
	for _, list := range []struct {
		wanted, before []string
		text           *string
	}{
		{p.AllowedVolumes, prev.AllowedVolumes, &a.volumes},
		{p.AllowedHostPaths, prev.AllowedHostPaths, &a.hostPaths},
		{p.AllowedDevices, prev.AllowedDevices, &a.devices},
	} {
		switch {
		case p.Driver != run.DriverDocker:
			list.wanted = nil
		case list.wanted == nil:
			list.wanted = list.before
		}
		if *list.text, err = sqldb.Marshal(list.wanted); err != nil {
			return a, err
		}
	}
	return a, nil
}

// checkExecutorsFit refuses a pool that contradicts an executor that serves it.
func checkExecutorsFit(ctx context.Context, t *sqldb.Tx, p run.Pool) error {
	var misfit error
	err := eachExecutor(ctx, t, t.Now, func(e run.Executor) {
		if e.Pool != p.Name || misfit != nil {
			return
		}
		if faults := poolFaults(e, p); len(faults) > 0 {
			misfit = run.Errorf(run.CodeConflict, "executor %s serves pool %s and does not fit: its %s differs: %s; remove it first",
				e.ID, p.Name, faults[0].Path, faults[0].Detail)
		}
	})
	if err != nil {
		return err
	}
	return misfit
}

// clearDefault clears the default mark of other pools of a pool's kind.
func clearDefault(ctx context.Context, t *sqldb.Tx, p run.Pool) error {
	same := `<>`
	if !p.Container() {
		same = `=`
	}
	_, err := t.Exec(ctx, `UPDATE pools SET is_default = ? WHERE is_default AND name <> ? AND driver `+same+` ?`, false, p.Name, run.DriverShell)
	return err
}

// DeletePool implements records.Store.
func (s *Store) DeletePool(ctx context.Context, name string) error {
	return s.db.Write(ctx, "delete a pool", func(t *sqldb.Tx) error {
		if t.Dialect.LockPools != "" {
			if _, err := t.Exec(ctx, t.Dialect.LockPools); err != nil {
				return err
			}
		}
		if _, err := ReadPool(ctx, t, name, t.Dialect.ForUpdate); err != nil {
			return err
		}
		var executors int
		if err := t.QueryRow(ctx, `SELECT count(*) FROM executors WHERE NOT removed AND pool = ?`, name).Scan(&executors); err != nil {
			return err
		}
		if executors > 0 {
			return run.Errorf(run.CodeConflict, "pool %s cannot be deleted: %d executors that are not removed serve it", name, executors)
		}
		if err := checkNoFleet(ctx, t, name); err != nil {
			return err
		}
		if err := checkPoolIdle(ctx, t, name, "cannot be deleted"); err != nil {
			return err
		}
		_, err := t.Exec(ctx, `DELETE FROM pools WHERE name = ?`, name)
		return err
	})
}

// checkNoFleet refuses to delete a pool that a fleet uses: new executors would
// have no pool.
func checkNoFleet(ctx context.Context, t *sqldb.Tx, name string) error {
	var users []string
	if err := sqldb.Each(ctx, t, func(row sqldb.Scanner) error {
		var user string
		err := row.Scan(&user)
		users = append(users, user)
		return err
	}, `SELECT name FROM fleets WHERE pool = ? AND mode <> ? ORDER BY name`, name, run.FleetDeleted); err != nil {
		return err
	}
	if len(users) == 0 {
		return nil
	}
	return run.Errorf(run.CodeConflict, "pool %s cannot be deleted: fleet %s uses it; delete the fleet first, or move it to another pool",
		name, strings.Join(users, ", "))
}

// checkPoolIdle refuses a change while a pool has unfinished tasks.
func checkPoolIdle(ctx context.Context, t *sqldb.Tx, name, what string) error {
	var open run.ID
	err := t.QueryRow(ctx, `SELECT s.run_id FROM run_states s JOIN tasks t ON t.run_id = s.run_id
		WHERE s.prefix = '' AND s.state IN ('queued', 'running') AND t.pool = ?
		AND t.status IN ('not_started', 'waiting_approval', 'waiting_changegroup', 'queued', 'running') LIMIT 1`, name).Scan(&open)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	return run.Errorf(run.CodeConflict, "pool %s %s: it has unfinished tasks, for example of run %s", name, what, open)
}
