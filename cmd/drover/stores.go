package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/drover-run/drover/blobs"
	"github.com/drover-run/drover/cmd/internal/process"
	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/keyring"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/postgres"
	"github.com/drover-run/drover/records/sqlite"
)

// stores are the persistent stores of a process.
type stores struct {
	records records.Store
	blobs   *blobs.Store
}

func openStores(ctx context.Context, r config.Records, b config.Blobs, observer records.Observer) (*stores, error) {
	store, err := openRecords(ctx, r, observer)
	if err != nil {
		return nil, fmt.Errorf("open the records: %w", err)
	}
	bucket, err := blobs.Open(ctx, b.URL)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the blobs: %w", err), store.Close())
	}
	return &stores{records: recordsFailpoint(store), blobs: bucket}, nil
}

func openRecords(ctx context.Context, r config.Records, observer records.Observer) (records.Store, error) {
	keys, err := openKeys(r)
	if err != nil {
		return nil, err
	}
	if r.Driver == "postgres" {
		dsn, err := process.SecretOrFile(r.DSN, r.DSNFile)
		if err != nil {
			return nil, err
		}
		return postgres.Open(ctx, dsn, postgres.Options{Observer: observer, Keys: keys})
	}
	return sqlite.Open(ctx, r.Path, sqlite.Options{Observer: observer, Keys: keys})
}

// openKeys returns the keys for secrets at rest, or nil if none are configured.
func openKeys(r config.Records) (*keyring.Ring, error) {
	if r.Keys == "" && r.KeysFile == "" {
		return nil, nil //nolint:nilnil // a nil ring leaves secrets in the clear
	}
	return process.ReadKeys("records.keys", r.Keys, r.KeysFile)
}

func (s *stores) close() error { return errors.Join(s.blobs.Close(), s.records.Close()) }
