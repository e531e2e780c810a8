package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// idempotencyKey returns the key of a request, or the zero key if the client
// sent none.
func idempotencyKey(subject, key, digest string) records.IdempotencyKey {
	if key == "" {
		return records.IdempotencyKey{}
	}
	return records.IdempotencyKey{Subject: subject, Key: key, Digest: digest}
}

// digest identifies a request, secrets included. It leaves out the update
// token: a client that repeats a call after reading the run again means the
// same run.
func digest(kind string, parts ...any) string {
	h := sha256.New()
	encoder := json.NewEncoder(h) // sorts the keys of maps
	for _, part := range append([]any{kind}, parts...) {
		if err := encoder.Encode(part); err != nil {
			return "" // nothing in a request cannot be encoded
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

func createDigest(spec *run.Spec) string { return digest("create", spec, revealed(spec.Secrets)) }

func restartDigest(req run.RestartRequest) string {
	parts := []any{req.Run, req.From, req.Tasks, req.Environment, revealed(req.Secrets)}
	if len(req.InputValues) > 0 { // digests of earlier versions stay valid
		parts = append(parts, req.InputValues)
	}
	if req.Spec != nil {
		parts = append(parts, req.Spec, revealed(req.Spec.Secrets))
	}
	return digest("restart", parts...)
}

// revealed returns secrets in the clear, for the digest: their own encoding
// masks them.
func revealed(secrets map[string]run.Secret) map[string]string {
	shown := make(map[string]string, len(secrets))
	for name, s := range secrets {
		shown[name] = s.Reveal()
	}
	return shown
}
