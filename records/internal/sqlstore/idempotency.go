package sqlstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// recall takes an idempotency key, and returns the run that it has made
// already, "" if none. Of two at a time the second waits for the first.
func (t *tx) recall(ctx context.Context, k records.IdempotencyKey) (run.ID, error) {
	if k.Key == "" {
		return "", nil
	}
	if _, err := t.Exec(ctx, `DELETE FROM idempotency WHERE subject = ? AND name = ? AND at <= ?`,
		k.Subject, k.Key, t.now-int64(run.IdempotencyTime)); err != nil {
		return "", err
	}
	salt := rand.Text()
	if _, err := t.Exec(ctx, `INSERT INTO idempotency (subject, name, salt, digest, run_id, at) VALUES (?, ?, ?, ?, '', ?)
		ON CONFLICT (subject, name) DO NOTHING`, k.Subject, k.Key, salt, salted(salt, k.Digest), t.now); err != nil {
		return "", err
	}
	var digest string
	var id run.ID
	err := t.QueryRow(ctx, `SELECT salt, digest, run_id FROM idempotency WHERE subject = ? AND name = ?`, k.Subject, k.Key).Scan(&salt, &digest, &id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", run.Errorf(run.CodeUnavailable, "the idempotency key expired just now; try again")
	case err != nil:
		return "", err
	case digest != salted(salt, k.Digest):
		return "", run.Errorf(run.CodeIdempotencyMismatch,
			"the idempotency key %q was used for another request in the last 24 hours; use a new key for a new request", k.Key)
	}
	return id, nil
}

// remember notes the run that a key has made.
func (t *tx) remember(ctx context.Context, k records.IdempotencyKey, id run.ID) error {
	if k.Key == "" {
		return nil
	}
	_, err := t.Exec(ctx, `UPDATE idempotency SET run_id = ? WHERE subject = ? AND name = ?`, id, k.Subject, k.Key)
	return err
}

// salted hides a digest: requests hold secrets, which may be short.
func salted(salt, digest string) string {
	sum := sha256.Sum256([]byte(salt + ":" + digest))
	return hex.EncodeToString(sum[:])
}
