package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/drover-run/drover/blobs"
	"github.com/drover-run/drover/cmd/internal/process"
	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/keyring"
	"github.com/drover-run/drover/internal/reload"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/postgres"
	"github.com/drover-run/drover/records/sqlite"
)

// stores are the persistent stores of a process.
type stores struct {
	records records.Store
	blobs   *blobs.Store
}

func openStores(ctx context.Context, r config.Records, b config.Blobs, observer records.Observer, logger *slog.Logger) (*stores, error) {
	store, err := openRecords(ctx, r, observer, logger)
	if err != nil {
		return nil, fmt.Errorf("open the records: %w", err)
	}
	bucket, err := blobs.Open(ctx, b.URL)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the blobs: %w", err), store.Close())
	}
	return &stores{records: recordsFailpoint(store), blobs: bucket}, nil
}

func openRecords(ctx context.Context, r config.Records, observer records.Observer, logger *slog.Logger) (records.Store, error) {
	keys, err := openKeys(r, logger)
	if err != nil {
		return nil, err
	}
	if r.Driver == "postgres" {
		dsn, err := openDSN(r, logger)
		if err != nil {
			return nil, err
		}
		return postgres.Open(ctx, dsn(), postgres.Options{Observer: observer, Keys: keys, CurrentDSN: dsn, Logger: logger})
	}
	return sqlite.Open(ctx, r.Path, sqlite.Options{Observer: observer, Keys: keys})
}

// openDSN returns a function that returns the current connection string.
func openDSN(r config.Records, logger *slog.Logger) (func() string, error) {
	if r.DSNFile == "" {
		return r.DSN.Reveal, nil
	}
	file, err := reload.Open(logger, func(files [][]byte) (string, error) {
		dsn := strings.TrimSpace(string(files[0]))
		if dsn == "" {
			return "", errors.New("it is empty")
		}
		return dsn, nil
	}, r.DSNFile)
	if err != nil {
		return nil, fmt.Errorf("read records.dsn_file: %w", err)
	}
	return file.Refresh, nil // connections are rare
}

// openKeys returns the keys for secrets at rest, or nil if none are configured.
func openKeys(r config.Records, logger *slog.Logger) (*keyring.Ring, error) {
	if r.Keys == "" && r.KeysFile == "" {
		return nil, nil //nolint:nilnil // a nil ring leaves secrets in the clear
	}
	return process.ReadKeys("records.keys", r.Keys, r.KeysFile, logger)
}

func (s *stores) close() error { return errors.Join(s.blobs.Close(), s.records.Close()) }
