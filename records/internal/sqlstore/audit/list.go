package audit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/auditlog"
)

// maxScanned bounds the records that one read compares with the filters of a query.
const maxScanned = 2_000

// ListAudit implements records.Store. Each filter has an index in the order of the
// ids: the records of one of them are read, and compared with the others.
func (s *Store) ListAudit(ctx context.Context, q auditlog.Query) (page auditlog.Page, err error) {
	after, err := parseCursor(q)
	if err != nil {
		return page, err
	}
	limit := cmp.Or(q.Limit, sqldb.DefaultLimit)
	err = s.db.Read(ctx, "read the audit log", func(tx sqldb.Querier) error {
		page = auditlog.Page{}
		path, end, err := choose(ctx, tx, q, after)
		if err != nil {
			return err
		}
		where := sqldb.AllOf(path.where, path.others, times(q), path.bounds(q, after, end))
		if err := sqldb.Each(ctx, tx, func(row sqldb.Scanner) error {
			r, err := scan(row)
			page.Records = append(page.Records, r)
			return err
		}, `SELECT audit_records.`+columns+` FROM `+path.from+` WHERE `+where.Where+` ORDER BY `+path.order(q)+` LIMIT ?`, append(where.Args, limit+1)...); err != nil {
			return err
		}
		switch {
		case len(page.Records) > limit:
			page.Records = page.Records[:limit]
			page.Next = formatCursor(q, page.Records[limit-1].ID)
		case end != "":
			page.Next = formatCursor(q, end)
		}
		return nil
	})
	return page, err
}

// accessPath reads the records of one filter by its index, and compares them with the
// others.
type accessPath struct {
	index  string          // the table of the index, which has the column id
	by     sqldb.Condition // the filter
	from   string          // the tables of the records
	where  sqldb.Condition // the filter, and what joins the tables
	others sqldb.Condition // the other filters, without an index
}

// accessPaths returns one path for each filter, or that of all records.
func accessPaths(q auditlog.Query) []accessPath {
	const records = `audit_records`
	var paths []accessPath
	var compared []sqldb.Condition // the filters, so that no index fits
	equal := func(column, value string) (by, as sqldb.Condition) {
		if value == "" {
			return by, as
		}
		column, args := records+`.`+column, []any{value}
		return sqldb.Condition{Where: column + ` = ?`, Args: args}, sqldb.Condition{Where: column + ` || '' = ?`, Args: args}
	}
	add := func(by, as sqldb.Condition) {
		if by.Where != "" {
			paths, compared = append(paths, accessPath{index: records, by: by, from: records, where: by}), append(compared, as)
		}
	}
	add(equal(`subject`, q.Subject))
	add(equal(`action`, q.Action))
	kind, kindAs := equal(`kind`, q.Resource.Kind)
	id, idAs := equal(`resource`, q.Resource.ID)
	add(sqldb.AllOf(kind, id), sqldb.AllOf(kindAs, idAs))
	add(equal(`result`, string(q.Result)))
	if path, root := sqldb.QueryPath(q.Group); !root {
		by := sqldb.Condition{Where: `audit_groups.path = ?`, Args: []any{path}}
		// CROSS JOIN keeps SQLite from reading the tables in the other order, and sorting.
		paths = append(paths, accessPath{
			index: `audit_groups`, by: by, from: `audit_groups CROSS JOIN audit_records`,
			where: sqldb.AllOf(sqldb.Condition{Where: `audit_records.id = audit_groups.id`}, by),
		})
		compared = append(compared, sqldb.InGroups(`audit_records.group_path`, []string{path}))
	}
	for i := range paths {
		paths[i].others = sqldb.AllOf(slices.Delete(slices.Clone(compared), i, i+1)...)
	}
	if len(paths) == 0 {
		paths = []accessPath{{index: records, from: records}}
	}
	return paths
}

// choose returns the path on which one read gets the furthest, and the id at which that
// read has to end, "" if it may read all records.
func choose(ctx context.Context, tx sqldb.Querier, q auditlog.Query, after string) (best accessPath, end string, err error) {
	paths := accessPaths(q)
	if len(paths) == 1 {
		return paths[0], "", nil // all of its records match
	}
	for i, p := range paths {
		last, where := "", sqldb.AllOf(p.by, p.bounds(q, after, ""))
		if err := sqldb.Each(ctx, tx, func(row sqldb.Scanner) error { return row.Scan(&last) },
			`SELECT id FROM `+p.index+` WHERE `+where.Where+` ORDER BY `+p.order(q)+` LIMIT 1 OFFSET ?`, append(where.Args, maxScanned-1)...); err != nil {
			return best, "", err
		}
		if last == "" {
			return p, "", nil
		}
		if i == 0 || q.Ascending && last > end || !q.Ascending && last < end {
			best, end = p, last
		}
	}
	return best, end, nil
}

func (p accessPath) order(q auditlog.Query) string {
	if q.Ascending {
		return p.index + `.id`
	}
	return p.index + `.id DESC`
}

// bounds returns the condition on the ids: those after the cursor, up to end. Ids are in
// the order of the times, to the millisecond.
func (p accessPath) bounds(q auditlog.Query, after, end string) sqldb.Condition {
	all := []sqldb.Condition{{Where: `1 = 1`}}
	add := func(operator string, id string) {
		if id != "" {
			all = append(all, sqldb.Condition{Where: p.index + `.id` + operator + `?`, Args: []any{id}})
		}
	}
	if t := q.From; !t.IsZero() {
		add(` >= `, string(sqldb.IDBound(t, false)))
	}
	if t := q.To; !t.IsZero() {
		add(` <= `, string(sqldb.IDBound(t, true)))
	}
	if q.Ascending {
		add(` > `, after)
		add(` <= `, end)
	} else {
		add(` < `, after)
		add(` >= `, end)
	}
	return sqldb.AllOf(all...)
}

// times returns the exact condition on the time.
func times(q auditlog.Query) sqldb.Condition {
	var from, to sqldb.Condition
	if t := q.From; !t.IsZero() {
		from = sqldb.Condition{Where: `audit_records.at >= ?`, Args: []any{t.UnixNano()}}
	}
	if t := q.To; !t.IsZero() {
		to = sqldb.Condition{Where: `audit_records.at < ?`, Args: []any{t.UnixNano()}}
	}
	return sqldb.AllOf(from, to)
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
