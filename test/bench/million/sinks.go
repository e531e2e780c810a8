package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite" // the driver of the records
)

// fileSink writes to an SQLite file with prepared statements.
type fileSink struct {
	db   *sql.DB
	rows map[string][][]any
}

func openFile(path string) (*fileSink, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=synchronous(off)&_pragma=cache_size(-500000)")
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return &fileSink{db: db, rows: map[string][][]any{}}, nil
}

func (f *fileSink) put(table string, row ...any) error {
	f.rows[table] = append(f.rows[table], row)
	return nil
}

func (f *fileSink) flush(ctx context.Context) error {
	tx, err := f.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // it does nothing after the commit
	for table, rows := range f.rows {
		stmt, err := tx.PrepareContext(ctx, `INSERT INTO `+table+` (`+strings.Join(columns[table], ", ")+`) VALUES (?`+
			strings.Repeat(`, ?`, len(columns[table])-1)+`)`)
		if err != nil {
			return fmt.Errorf("prepare for %s: %w", table, err)
		}
		for _, row := range rows {
			if _, err := stmt.ExecContext(ctx, row...); err != nil {
				return fmt.Errorf("write to %s: %w", table, err)
			}
		}
		if err := stmt.Close(); err != nil {
			return fmt.Errorf("close: %w", err)
		}
	}
	clear(f.rows)
	return tx.Commit()
}

func (f *fileSink) close(ctx context.Context) error {
	if _, err := f.db.ExecContext(ctx, `ANALYZE`); err != nil {
		return fmt.Errorf("analyze: %w", err)
	}
	return f.db.Close()
}

// serverSink writes to PostgreSQL with COPY.
type serverSink struct {
	conn *pgx.Conn
	rows map[string][][]any
}

func openServer(ctx context.Context, url string) (*serverSink, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	_, err = conn.Exec(ctx, `SET synchronous_commit = off`)
	return &serverSink{conn: conn, rows: map[string][][]any{}}, err
}

func (s *serverSink) put(table string, row ...any) error {
	s.rows[table] = append(s.rows[table], row)
	return nil
}

func (s *serverSink) flush(ctx context.Context) error {
	for table, rows := range s.rows {
		if _, err := s.conn.CopyFrom(ctx, pgx.Identifier{table}, columns[table], pgx.CopyFromRows(rows)); err != nil {
			return fmt.Errorf("copy to %s: %w", table, err)
		}
	}
	clear(s.rows)
	return nil
}

func (s *serverSink) close(ctx context.Context) error {
	if _, err := s.conn.Exec(ctx, `VACUUM ANALYZE`); err != nil {
		return fmt.Errorf("analyze: %w", err)
	}
	return s.conn.Close(ctx)
}
