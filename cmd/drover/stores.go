package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/drover-run/drover/blobs"
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
		dsn, err := secretOrFile(r.DSN, r.DSNFile)
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
	return readKeys("records.keys", r.Keys, r.KeysFile)
}

// readKeys reads the keys of a setting or of a file.
func readKeys(setting string, keys config.Secret, file string) (*keyring.Ring, error) {
	text, err := secretOrFile(keys, file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", setting, err)
	}
	ring, err := keyring.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", setting, err)
	}
	return ring, nil
}

func (s *stores) close() error { return errors.Join(s.blobs.Close(), s.records.Close()) }

// secretOrFile returns a secret of a setting or of a file.
func secretOrFile(s config.Secret, file string) (string, error) {
	if file == "" {
		return s.Reveal(), nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the secret: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}
