// Package audit stores the audit log.
package audit

import (
	"context"
	"slices"
	"time"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run/auditlog"
)

// Store is the part of a records.Store that concerns the audit log.
type Store struct{ db *sqldb.DB }

// NewStore returns a Store in a database.
func NewStore(db *sqldb.DB) *Store { return &Store{db: db} }

const columns = `id, at, until_at, requests, subject, token, action, kind, resource, task, created, group_path, result, status, code, request_id, remote, details`

// AppendAudit implements records.Store.
func (s *Store) AppendAudit(ctx context.Context, records []auditlog.Record) error {
	if len(records) == 0 {
		return nil
	}
	return s.db.Write(ctx, "append to the audit log", func(t *sqldb.Tx) error {
		for _, r := range records {
			if err := appendRecord(ctx, t, r); err != nil {
				return err
			}
		}
		return nil
	})
}

func appendRecord(ctx context.Context, t *sqldb.Tx, r auditlog.Record) error {
	if r.Kind == auditlog.KindRun && r.Resource.ID != "" && r.Group == "" {
		var err error
		if r.Group, err = groupOf(ctx, t, r.Resource.ID); err != nil {
			return err
		}
	}
	// A call that deleted its run has the group of its first write.
	if _, err := t.Exec(ctx, `INSERT INTO audit_records (`+columns+`) VALUES (`+sqldb.Tuples(`?`, 18)+`)
		ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, resource = excluded.resource, created = excluded.created, details = excluded.details,
			group_path = CASE WHEN excluded.group_path = '' THEN audit_records.group_path ELSE excluded.group_path END,
			result = excluded.result, status = excluded.status, code = excluded.code
		WHERE audit_records.status = 0`,
		r.ID, sqldb.FromTime(r.Time), sqldb.FromTime(r.Until), r.Count, r.Subject, r.Token, r.Action, r.Kind, r.Resource.ID, r.Task, r.Created,
		r.Group, r.Result, r.Status, r.Code, r.RequestID, r.Remote, r.Details); err != nil {
		return err
	}
	for _, path := range indexed(r.Group) {
		if _, err := t.Exec(ctx, `INSERT INTO audit_groups (path, id) VALUES (?, ?) ON CONFLICT DO NOTHING`, path, r.ID); err != nil {
			return err
		}
	}
	return nil
}

// groupOf returns the group of a run, "" if there is no such run.
func groupOf(ctx context.Context, q sqldb.Querier, id string) (group string, err error) {
	err = sqldb.Each(ctx, q, func(row sqldb.Scanner) error { return row.Scan(&group) }, `SELECT group_path FROM runs WHERE id = ?`, id)
	return group, err
}

// indexed returns the paths by which queries find a group. All records are in the root.
func indexed(group string) []string {
	if group == "" || group == "/" {
		return nil
	}
	return slices.DeleteFunc(sqldb.GroupPrefixes(group), func(path string) bool { return path == "" })
}

// ForgetAudit implements records.Store.
func (s *Store) ForgetAudit(ctx context.Context, before time.Time, n int) (removed int, err error) {
	err = s.db.Write(ctx, "forget records of the audit log", func(t *sqldb.Tx) error {
		removed = 0
		var ids []any
		groups := map[string]bool{}
		if err := sqldb.Each(ctx, t, func(row sqldb.Scanner) error {
			var id, group string
			err := row.Scan(&id, &group)
			ids = append(ids, id)
			for _, path := range indexed(group) {
				groups[path] = true
			}
			return err
		}, `SELECT id, group_path FROM audit_records WHERE id < ? ORDER BY id LIMIT ?`, string(sqldb.IDBound(before, false)), n); err != nil || len(ids) == 0 {
			return err
		}
		done, err := t.Exec(ctx, `DELETE FROM audit_records WHERE id IN (`+sqldb.Tuples(`?`, len(ids))+`)`, ids...)
		if err != nil {
			return err
		}
		count, err := done.RowsAffected()
		if err != nil {
			return err
		}
		removed = int(count)
		// No record up to the last of these is left, so neither is one in these groups.
		for path := range groups {
			if _, err := t.Exec(ctx, `DELETE FROM audit_groups WHERE path = ? AND id <= ?`, path, ids[len(ids)-1]); err != nil {
				return err
			}
		}
		return nil
	})
	return removed, err
}
