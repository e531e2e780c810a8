package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"github.com/drover-run/drover/run"
)

// Schema migrates a database to the schema of this build, and checks its
// version.
type Schema struct {
	provider *goose.Provider
	version  int64 // of this build
}

// NewSchema reads the migrations in the folder migrations of files.
func NewSchema(dialect goose.Dialect, db *sql.DB, files fs.FS) (*Schema, error) {
	folder, err := fs.Sub(files, "migrations")
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	provider, err := goose.NewProvider(dialect, db, folder, goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	sources := provider.ListSources()
	return &Schema{provider: provider, version: sources[len(sources)-1].Version}, nil
}

// Migrate applies the missing migrations. The caller must exclude concurrent
// migrations. Errors: not_supported if the schema is newer than this build.
func (s *Schema) Migrate(ctx context.Context) error {
	have, want, err := s.provider.GetVersions(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("read the schema version: %w", err)
	case have > want:
		return run.Errorf(run.CodeNotSupported,
			"the records have schema version %d, which is newer than this build's %d: use the newer build", have, want)
	case have == want:
		return nil
	}
	if _, err := s.provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate the records: %w", err)
	}
	return nil
}

// check returns a function that checks whether the schema is current.
func (s *Schema) check(ctx context.Context) func(Querier) error {
	return func(q Querier) error {
		var version int64
		if err := q.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`).Scan(&version); err != nil {
			return err
		}
		if version != s.version {
			return run.Errorf(run.CodeUnavailable, "the records have schema version %d, and this build needs %d", version, s.version)
		}
		return nil
	}
}
