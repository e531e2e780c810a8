package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

const (
	channel = "drover_records"
	// maxPayload is below the 8000 bytes that a notification may have.
	maxPayload = 7500
	// sequenceBatch bounds the events that are numbered in one transaction.
	sequenceBatch = 1000
	// leftoverCheck is how often a process looks for unnumbered events of a
	// process that died between its commit and their numbering.
	leftoverCheck = 5 * time.Second
	announceRetry = 200 * time.Millisecond
	// lastAnnounceTimeout bounds the last announcement during Close.
	lastAnnounceTimeout = 2 * time.Second
)

// announce numbers the events of this process's commits and announces them to
// other processes, until ctx ends and nothing is pending.
//
// It runs after the commits, for two reasons. Numbers assigned inside of them
// would be in no order that readers could follow, since commits overtake each
// other. And a transaction that notifies holds a lock of the whole server while
// it commits, so that commits would queue behind each other. Here one
// transaction notifies for all commits that are pending.
func (b *backend) announce(ctx context.Context) {
	ticker := time.NewTicker(leftoverCheck)
	defer ticker.Stop()
	b.announceOnce(ctx, true)
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), lastAnnounceTimeout, sql.ErrConnDone)
			defer cancel()
			b.announceOnce(last, false)
			return
		case <-b.wake:
			b.announceOnce(ctx, false)
		case <-ticker.C:
			b.announceOnce(ctx, true)
		}
	}
}

// announceOnce makes one announcement. It retries a failed one later.
func (b *backend) announceOnce(ctx context.Context, unnumbered bool) {
	b.mu.Lock()
	a := b.pending
	b.pending = announcement{}
	b.mu.Unlock()
	a.events = a.events || unnumbered
	if a.empty() {
		return
	}
	more, err := b.publish(ctx, &a)
	if err != nil {
		b.mu.Lock()
		for id := range b.pending.runs {
			a.add(sqldb.Commit{Runs: []run.ID{id}})
		}
		a.add(sqldb.Commit{Events: b.pending.events, Outbox: b.pending.outbox})
		b.pending = a
		b.mu.Unlock()
		if ctx.Err() == nil {
			b.logger.WarnContext(ctx, "failed to number events", "error", err)
			time.AfterFunc(announceRetry, b.wakeUp)
		}
		return
	}
	for id := range a.runs {
		b.hub.Signal(id)
	}
	if more {
		b.mu.Lock()
		b.pending.events = true
		b.mu.Unlock()
		b.wakeUp()
	}
}

// publish numbers events and notifies. It adds to a the runs whose events it
// has numbered. more reports that unnumbered events may be left.
func (b *backend) publish(ctx context.Context, a *announcement) (more bool, err error) {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return false, fmt.Errorf("begin transaction: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // it does nothing after the commit
	if a.events {
		n, err := number(ctx, tx, a)
		if err != nil {
			return false, fmt.Errorf("number events: %w", err)
		}
		more = n == sequenceBatch
	}
	for _, payload := range payloads(b.name, a) {
		if _, err := tx.ExecContext(ctx, `SELECT pg_notify($1, $2)`, channel, payload); err != nil {
			return false, fmt.Errorf("notify: %w", err)
		}
	}
	return more, tx.Commit()
}

// number assigns the next numbers to events without one, in the order of their
// ids. The lock excludes other processes until the commit, and the statement
// after it sees all earlier commits.
func number(ctx context.Context, tx *sql.Tx, a *announcement) (int, error) {
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(lockSequencer)); err != nil {
		return 0, err
	}
	rows, err := tx.QueryContext(ctx, `SELECT id, run_id FROM events WHERE number IS NULL ORDER BY id LIMIT $1`, sequenceBatch)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		var owner run.ID
		if err := rows.Scan(&id, &owner); err != nil {
			return 0, err
		}
		ids = append(ids, id)
		a.add(sqldb.Commit{Runs: []run.ID{owner}})
	}
	if err := rows.Err(); err != nil || len(ids) == 0 {
		return 0, err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE events e SET number = s.last + u.ordinal
		FROM unnest($1::bigint[]) WITH ORDINALITY AS u (id, ordinal), event_sequence s WHERE e.id = u.id`, ids); err != nil {
		return 0, err
	}
	_, err = tx.ExecContext(ctx, `UPDATE event_sequence SET last = last + $1`, len(ids))
	return len(ids), err
}

// payloads encodes an announcement as notifications: the sending process, "o"
// if there are new outbox rows, and the runs.
func payloads(name string, a *announcement) []string {
	if len(a.runs) == 0 && !a.outbox {
		return nil
	}
	head := name + " "
	if a.outbox {
		head += "o"
	}
	head += " "
	var out []string
	text := head
	for id := range a.runs {
		if len(text)+len(id)+1 > maxPayload {
			out = append(out, text)
			text = head
		}
		text += string(id) + ","
	}
	return append(out, text)
}

// receive forwards a notification of another process to the watchers of this
// process.
func (b *backend) receive(payload string) {
	parts := strings.SplitN(payload, " ", 3)
	if len(parts) != 3 || parts[0] == b.name {
		return
	}
	if parts[1] == "o" {
		b.hub.SignalOutbox()
	}
	for id := range strings.SplitSeq(strings.TrimSuffix(parts[2], ","), ",") {
		if id != "" {
			b.hub.Signal(run.ID(id))
		}
	}
}
