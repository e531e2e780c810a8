package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"github.com/drover-run/drover/run"
)

// Schema brings a database to the schema of this build, and tells whether it
// has it.
type Schema struct {
	provider *goose.Provider
}

// NewSchema reads the migrations in the folder migrations of files.
func NewSchema(dialect goose.Dialect, db *sql.DB, files fs.FS, opts ...goose.ProviderOption) (*Schema, error) {
	folder, err := fs.Sub(files, "migrations")
	if err != nil {
		return nil, fmt.Errorf("reading the migrations: %w", err)
	}
	opts = append(opts, goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	provider, err := goose.NewProvider(dialect, db, folder, opts...)
	if err != nil {
		return nil, fmt.Errorf("reading the migrations: %w", err)
	}
	return &Schema{provider: provider}, nil
}

// Current reports whether the database has the schema of this build. Errors:
// failed with not_supported where its schema is newer than this build's.
func (s *Schema) Current(ctx context.Context) (bool, error) {
	have, want, err := s.provider.GetVersions(ctx)
	if err != nil {
		return false, fmt.Errorf("reading the schema's version: %w", err)
	}
	if have > want {
		return false, run.Errorf(run.CodeNotSupported,
			"the records have schema version %d, which is newer than this build's %d: use the newer build", have, want)
	}
	return have == want, nil
}

// Migrate applies what is missing. Others that do so at the same time must be
// kept away.
func (s *Schema) Migrate(ctx context.Context) error {
	current, err := s.Current(ctx)
	if err != nil || current {
		return err
	}
	if _, err := s.provider.Up(ctx); err != nil {
		return fmt.Errorf("migrating the records: %w", err)
	}
	return nil
}
