package executors

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

const (
	// maxWaitingLabels bounds for how many sets of labels an executor polls.
	maxWaitingLabels = 100
	// maxLabelsRead bounds how many sets of labels of waiting tasks are read.
	maxLabelsRead = 10_000
	// labelsReread is how long the sets of labels of a pool are kept if there are more
	// than an executor polls for. Reading them takes long then.
	labelsReread = run.ExecutorRenew
	// labelsRotation is how long an executor polls for the same sets of labels if there
	// are more than it polls for.
	labelsRotation = time.Minute
	// permitRotation is how long an executor keeps the free slots of a limited pool
	// while tasks wait that it does not take.
	permitRotation = 15 * time.Second
)

// setDemand adds to the answer for an executor for which waiting tasks it polls, and how
// many of its slots it may use.
func (s *Store) setDemand(ctx context.Context, q sqldb.Querier, now int64, e *ExecutorRow, w *run.DesiredState) error {
	var text string
	var own map[string]string
	var pool run.Pool
	err := q.QueryRow(ctx, `SELECT labels, max_running FROM pools WHERE name = ?`, e.Pool).Scan(&text, &pool.MaxRunning)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	if err := errors.Join(sqldb.Unmarshal(text, &pool.Labels), sqldb.Unmarshal(e.labels, &own)); err != nil {
		return err
	}
	waiting, err := s.waitingOf(ctx, q, e.Pool, now)
	if err != nil {
		return err
	}
	w.Labels = waiting.matching(pool.WithLabels(own), e.ID, now)
	if pool.MaxRunning == 0 && len(w.Labels) == 0 {
		return nil
	}
	var plain bool // tasks wait that any executor may run
	if err := q.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM tasks WHERE pool = ? AND status IN ('queued', 'running') AND status = 'queued' AND labels = '')`,
		e.Pool).Scan(&plain); err != nil {
		return err
	}
	w.LabelsOnly = len(w.Labels) > 0 && !plain
	if pool.MaxRunning == 0 {
		return nil
	}
	slots, err := s.permittedSlots(ctx, q, now, e, pool, waiting, plain)
	w.Slots = &slots
	return err
}

// labelSets are the different sets of labels that queued tasks of a pool require, by
// group and place.
type labelSets []labelSet

type labelSet struct {
	group  uint64 // place of the group of one of the tasks
	place  uint64
	labels map[string]string
}

// placeOf returns the place of a text among all texts, which has nothing to do with
// their order.
func placeOf(text string) uint64 {
	sum := sha256.Sum256([]byte(text))
	return binary.BigEndian.Uint64(sum[:8])
}

// matching returns the sets that an executor with the given labels polls for, at most
// maxWaitingLabels. If there are more, the groups take turns, and in each of them, as
// among the groups, each executor begins elsewhere, and moves on with time, so that no set
// is left out for good. Steps of the golden ratio divide the places evenly, and sets that
// come and go do not move the others.
func (sets labelSets) matching(all map[string]string, executor string, now int64) (out []map[string]string) {
	groups := []labelSets{sets}
	if len(sets) > maxWaitingLabels {
		const golden = 0x9E3779B97F4A7C15 // 2^64 divided by the golden ratio
		groups = sets.from(placeOf(executor) + uint64(now/int64(labelsRotation))*golden)
	}
	for len(groups) > 0 {
		left := groups[:0]
		for _, g := range groups {
			for len(g) > 0 && !run.HasLabels(all, g[0].labels) {
				g = g[1:]
			}
			if len(g) == 0 {
				continue
			}
			if out = append(out, g[0].labels); len(out) == maxWaitingLabels {
				return out
			}
			left = append(left, g[1:])
		}
		groups = left
	}
	return out
}

// from returns the sets of each group, with the groups and their sets from a place on, and
// then those before it.
func (sets labelSets) from(place uint64) (groups []labelSets) {
	first := 0
	for rest := sets; len(rest) > 0; {
		n, _ := slices.BinarySearchFunc(rest, rest[0].group, func(s labelSet, group uint64) int {
			if s.group > group {
				return 1
			}
			return -1
		})
		g := rest[:n]
		if g[0].group < place {
			first++
		}
		i, _ := slices.BinarySearchFunc(g, place, func(s labelSet, place uint64) int { return cmp.Compare(s.place, place) })
		groups = append(groups, slices.Concat(g[i:], g[:i]))
		rest = rest[n:]
	}
	return slices.Concat(groups[first:], groups[:first])
}

// waitingLabels are the sets of labels that the queued tasks of a pool require.
type waitingLabels struct {
	sets labelSets
	last string // the last text that was read, if there were more than one reading takes
}

// waitingOf returns the sets of labels that the queued tasks of a pool require, the same for
// all of its executors if there are very many.
func (s *Store) waitingOf(ctx context.Context, q sqldb.Querier, pool string, now int64) (labelSets, error) {
	w, err := s.waiting.Of(ctx, pool, now, func(prev waitingLabels) (w waitingLabels, many bool, err error) {
		w.sets, w.last, err = readLabelSets(ctx, q, pool, prev.last)
		return w, len(w.sets) > maxWaitingLabels, err
	})
	return w.sets, err
}

// readLabelSets reads the sets of labels that queued tasks of a pool require of their
// executor. If there are more than one reading takes, it takes those after a text, and
// from the first on where these end; last is then the text after which the next reading
// begins.
func readLabelSets(ctx context.Context, q sqldb.Querier, pool, after string) (out labelSets, last string, err error) {
	last, err = readLabelsAfter(ctx, q, pool, after, "", maxLabelsRead, &out)
	if err == nil && after != "" && len(out) < maxLabelsRead {
		last, err = readLabelsAfter(ctx, q, pool, "", after, maxLabelsRead-len(out), &out)
	}
	if len(out) < maxLabelsRead {
		last = ""
	}
	slices.SortFunc(out, func(a, b labelSet) int { return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.place, b.place)) })
	return out, last, err
}

// readLabelsAfter reads the sets whose texts are after one, and not after another if it
// is not empty. The query reads the index once for each set, and not once for each task.
// The task of a set is asked for as the first from its text on: PostgreSQL takes the index
// by labels for that order, while for an equal text it may take the index by pool and read
// all waiting tasks for each set, as it does before the table has statistics.
func readLabelsAfter(ctx context.Context, q sqldb.Querier, pool, after, until string, limit int, out *labelSets) (last string, err error) {
	last = after
	err = sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var group string
		if err := row.Scan(&last, &group); err != nil {
			return err
		}
		s := labelSet{group: placeOf(group), place: placeOf(last)}
		err := sqldb.Unmarshal(last, &s.labels)
		*out = append(*out, s)
		return err
	}, `WITH RECURSIVE waiting (labels) AS (
			SELECT min(t.labels) FROM tasks t WHERE t.pool = ? AND t.status = 'queued' AND t.labels <> '' AND t.labels > ?
				AND (CAST(? AS TEXT) = '' OR t.labels <= ?)
			UNION ALL
			SELECT (SELECT min(t.labels) FROM tasks t WHERE t.pool = ? AND t.status = 'queued' AND t.labels <> '' AND t.labels > w.labels
				AND (CAST(? AS TEXT) = '' OR t.labels <= ?))
			FROM waiting w WHERE w.labels IS NOT NULL)
		SELECT labels, COALESCE((SELECT r.group_path FROM runs r WHERE r.id = (SELECT t.run_id FROM tasks t
				WHERE t.pool = ? AND t.status = 'queued' AND t.labels <> '' AND t.labels >= w.labels ORDER BY t.labels LIMIT 1)), '')
		FROM waiting w WHERE labels IS NOT NULL LIMIT ?`, pool, after, until, until, pool, until, until, pool, limit)
	return last, err
}

// permittedSlots divides what a pool with a limit may still run among its executors,
// and returns how many slots the executor may use. plain says that tasks without labels
// wait. A claim checks the limit again, so
// the division needs to be right only most of the time: it keeps executors from
// receiving tasks that they may not run.
func (s *Store) permittedSlots(ctx context.Context, q sqldb.Querier, now int64, e *ExecutorRow, pool run.Pool, waiting labelSets, plain bool) (int, error) {
	held := map[string]int{}
	free := pool.MaxRunning
	if err := sqldb.Each(ctx, q, func(row sqldb.Scanner) error {
		var id string
		var n int
		err := row.Scan(&id, &n)
		held[id], free = n, free-n
		return err
	}, `SELECT executor, count(*) FROM tasks WHERE pool = ? AND status IN ('queued', 'running') AND status = 'running' GROUP BY executor`, e.Pool); err != nil {
		return 0, err
	}
	if free <= 0 { // the usual state of a busy pool, without a look at all executors
		return held[e.ID], nil
	}
	var candidates []run.Permitted
	usable := map[string]bool{} // by the labels of executors, of which many have the same
	all, err := s.serving(ctx, q, now)
	if err != nil {
		return 0, err
	}
	executors := all.executors
	if !slices.ContainsFunc(executors, func(x run.Executor) bool { return x.ID == e.ID }) { // it is newer than what is shared
		own, err := e.Describe(now)
		if err != nil {
			return 0, err
		}
		executors = append(slices.Clip(executors), own)
	}
	for _, x := range executors {
		if x.Pool != e.Pool || x.State != run.ExecutorOnline && x.ID != e.ID {
			continue
		}
		useful := plain || len(waiting) == 0
		if !useful {
			labels := pool.WithLabels(x.Labels)
			text := run.LabelsText(labels)
			found, known := usable[text]
			if !known {
				found = slices.ContainsFunc(waiting, func(s labelSet) bool { return run.HasLabels(labels, s.labels) })
				usable[text] = found
			}
			useful = found
		}
		if room := x.Slots - held[x.ID]; useful && room > 0 {
			candidates = append(candidates, run.Permitted{Executor: x.ID, Room: room})
		}
	}
	turn := 0
	if plain || len(waiting) > 0 {
		turn = int(now / int64(permitRotation))
	}
	return held[e.ID] + run.DividePermits(free, turn, candidates)[e.ID], nil
}
