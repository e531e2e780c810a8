package audit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/auditlog"
)

// ListAudit implements records.Store. Each filter has an index in the order of the
// ids: the database reads by one of them, and compares with the others.
func (s *Store) ListAudit(ctx context.Context, q auditlog.Query) (page auditlog.Page, err error) {
	after, err := parseCursor(q)
	if err != nil {
		return page, err
	}
	limit := cmp.Or(q.Limit, sqldb.DefaultLimit)
	// CROSS JOIN keeps SQLite from reading the tables in the other order, and sorting.
	from, id, order := `audit_records`, `audit_records.id`, ` DESC`
	if _, all := sqldb.QueryPath(q.Group); !all {
		from, id = `audit_groups CROSS JOIN audit_records`, `audit_groups.id`
	}
	if q.Ascending {
		order = ``
	}
	where := conditions(q, id, after)
	err = s.db.Read(ctx, "read the audit log", func(tx sqldb.Querier) error {
		page.Records = nil
		return sqldb.Each(ctx, tx, func(row sqldb.Scanner) error {
			r, err := scan(row)
			page.Records = append(page.Records, r)
			return err
		}, `SELECT audit_records.`+columns+` FROM `+from+` WHERE `+where.Where+` ORDER BY `+id+order+` LIMIT ?`,
			append(where.Args, limit+1)...)
	})
	if err == nil && len(page.Records) > limit {
		page.Records = page.Records[:limit]
		page.Next = formatCursor(q, page.Records[limit-1].ID)
	}
	return page, err
}

// conditions returns the conditions of a query on the tables audit_records and, if it
// has a group, audit_groups. id is the column to read in order.
func conditions(q auditlog.Query, id, after string) sqldb.Condition {
	all := []sqldb.Condition{{Where: `1 = 1`}}
	add := func(where string, arg string) {
		if arg != "" {
			all = append(all, sqldb.Condition{Where: where, Args: []any{arg}})
		}
	}
	add(`audit_records.subject = ?`, q.Subject)
	add(`audit_records.action = ?`, q.Action)
	add(`audit_records.kind = ?`, q.Resource.Kind)
	add(`audit_records.resource = ?`, q.Resource.ID)
	add(`audit_records.result = ?`, string(q.Result))
	if path, root := sqldb.QueryPath(q.Group); !root {
		add(`audit_records.id = audit_groups.id AND audit_groups.path = ?`, path)
	}
	// The ids are in the order of the times, to the millisecond.
	if t := q.From; !t.IsZero() {
		add(id+` >= ?`, string(sqldb.IDBound(t, false)))
		all = append(all, sqldb.Condition{Where: `audit_records.at >= ?`, Args: []any{t.UnixNano()}})
	}
	if t := q.To; !t.IsZero() {
		add(id+` <= ?`, string(sqldb.IDBound(t, true)))
		all = append(all, sqldb.Condition{Where: `audit_records.at < ?`, Args: []any{t.UnixNano()}})
	}
	if q.Ascending {
		add(id+` > ?`, after)
	} else {
		add(id+` < ?`, after)
	}
	return sqldb.AllOf(all...)
}

func scan(row sqldb.Scanner) (r auditlog.Record, err error) {
	var at, until int64
	err = row.Scan(&r.ID, &at, &until, &r.Count, &r.Subject, &r.Token, &r.Action, &r.Kind, &r.Resource.ID, &r.Task, &r.Created,
		&r.Group, &r.Result, &r.Status, &r.Code, &r.RequestID, &r.Remote, &r.Details)
	r.Time, r.Until = sqldb.ToTime(at), sqldb.ToTime(until)
	return r, err
}

// cursorText is the content of a cursor, before base64.
type cursorText struct {
	ID    string `json:"i"`
	Shape string `json:"s"`
}

// shape is a digest of the parts of a query that must be the same for all pages. The
// page size may change.
func shape(q auditlog.Query) string {
	q.Cursor, q.Limit = "", 0
	text, err := json.Marshal(q)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

func formatCursor(q auditlog.Query, id string) string {
	text, err := json.Marshal(cursorText{ID: id, Shape: shape(q)})
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// parseCursor returns the id after which the page begins, "" for the first page.
func parseCursor(q auditlog.Query) (string, error) {
	if q.Cursor == "" {
		return "", nil
	}
	var c cursorText
	text, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	if err != nil || json.Unmarshal(text, &c) != nil || !run.ValidID(run.ID(c.ID)) {
		return "", invalidCursor("it cannot be read")
	}
	if c.Shape != shape(q) {
		return "", invalidCursor("it belongs to a list with other filters or another order")
	}
	return c.ID, nil
}

func invalidCursor(why string) error {
	return run.InvalidError("the cursor is not valid: "+why, []run.Fault{{Path: "cursor", Code: run.CodeInvalid, Detail: why}})
}
