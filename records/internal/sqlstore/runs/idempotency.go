package runs

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/records/internal/sqlstore/sqldb"
	"github.com/drover-run/drover/run"
)

// lookupIdempotencyKey reserves an idempotency key, and returns the run that it has created
// already, "" if none. Of two concurrent calls the second waits for the first.
func lookupIdempotencyKey(ctx context.Context, t *sqldb.Tx, k records.IdempotencyKey) (run.ID, error) {
	if k.Key == "" {
		return "", nil
	}
	expired := t.Now - int64(run.IdempotencyTime)
	salt := rand.Text()
	var digest string
	var id run.ID
	err := t.QueryRow(ctx, `INSERT INTO idempotency (subject, name, salt, digest, run_id, at) VALUES (?, ?, ?, ?, '', ?)
		ON CONFLICT (subject, name) DO UPDATE SET salt = excluded.salt, digest = excluded.digest, run_id = '', at = excluded.at
		WHERE idempotency.at <= ? RETURNING run_id`, k.Subject, k.Key, salt, salted(salt, k.Digest), t.Now, expired).Scan(&id)
	if err == nil {
		return "", deleteExpiredKeys(ctx, t, expired)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return "", err
	}
	err = t.QueryRow(ctx, `SELECT salt, digest, run_id FROM idempotency WHERE subject = ? AND name = ?`, k.Subject, k.Key).Scan(&salt, &digest, &id)
	switch {
	case err != nil:
		return "", err
	case digest != salted(salt, k.Digest):
		return "", run.Errorf(run.CodeIdempotencyMismatch,
			"the idempotency key %q was used for another request in the last 24 hours; use a new key for a new request", k.Key)
	}
	return id, nil
}

// expiredKeyBatch is how many expired keys are deleted with each new one: more
// than one, so that their number shrinks.
const expiredKeyBatch = 10

// deleteExpiredKeys deletes some of the expired keys.
func deleteExpiredKeys(ctx context.Context, t *sqldb.Tx, expired int64) error {
	_, err := t.Exec(ctx, `DELETE FROM idempotency WHERE (subject, name) IN (
		SELECT subject, name FROM idempotency WHERE at <= ? ORDER BY at LIMIT ?`+t.Dialect.SkipLocked+`)`, expired, expiredKeyBatch)
	return err
}

// storeIdempotencyKey stores the run that a key has created.
func storeIdempotencyKey(ctx context.Context, t *sqldb.Tx, k records.IdempotencyKey, id run.ID) error {
	if k.Key == "" {
		return nil
	}
	_, err := t.Exec(ctx, `UPDATE idempotency SET run_id = ? WHERE subject = ? AND name = ?`, id, k.Subject, k.Key)
	return err
}

// replay returns the run that a key has created before.
func (s *Store) replay(ctx context.Context, id run.ID) (run.Run, error) {
	r, err := s.GetRun(ctx, id)
	if run.CodeOf(err) == run.CodeNotFound {
		return run.Run{}, run.Errorf(run.CodeConflict, "run %s, which this idempotency key created, was deleted; use a new key for a new run", id)
	}
	r.Replayed = true
	return r, err
}

// salted hides a digest, because requests hold secrets, which may be short.
func salted(salt, digest string) string {
	sum := sha256.Sum256([]byte(salt + ":" + digest))
	return hex.EncodeToString(sum[:])
}
