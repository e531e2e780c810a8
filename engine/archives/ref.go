package archives

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// The actions that a reference allows.
const (
	actionRead = "read"
	actionSave = "save"
)

// reference is the content of a reference. It holds nothing secret from its
// bearer except the object's name, which is useless without access to the
// bucket.
type reference struct {
	Action string               `json:"a"`
	Until  int64                `json:"u"` // seconds since 1970
	Claim  records.ArchiveClaim `json:"c"`
	Kind   run.ArchiveKind      `json:"k,omitempty"`
	Object string               `json:"o,omitempty"` // to read
	Size   int64                `json:"n,omitempty"`
	Scope  string               `json:"s,omitempty"` // to save; the following fields too
	Name   string               `json:"m,omitempty"`
	Keep   time.Duration        `json:"e,omitempty"`
	JUnit  bool                 `json:"j,omitempty"`
	// Replace: the cache takes the place of one with its scope and name.
	Replace bool `json:"r,omitempty"`
}

// signRef encodes a reference and appends a message authentication code.
func (s *Service) signRef(ctx context.Context, r reference) (string, error) {
	key, err := s.refKey(ctx)
	if err != nil {
		return "", err
	}
	r.Until = time.Now().Add(refLifetime).Unix()
	data, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("encode archive reference: %w", err)
	}
	text := base64.RawURLEncoding.EncodeToString(data)
	return text + "." + base64.RawURLEncoding.EncodeToString(proofOf(key, text)), nil
}

// openRef verifies and decodes a reference. The executor must hold the claim
// for which it was issued; the records check that. Errors: invalid, gone.
func (s *Service) openRef(ctx context.Context, ref, action, executor string) (reference, error) {
	key, err := s.refKey(ctx)
	if err != nil {
		return reference{}, err
	}
	var r reference
	text, proof, _ := strings.Cut(ref, ".")
	given, err := base64.RawURLEncoding.DecodeString(proof)
	if err != nil || !hmac.Equal(given, proofOf(key, text)) {
		return r, run.Errorf(run.CodeInvalid, "the reference to the archive is not genuine")
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	switch {
	case err != nil:
		return r, fmt.Errorf("decode archive reference: %w", err)
	case r.Action != action:
		return r, run.Errorf(run.CodeInvalid, "the reference does not allow to %s an archive", action)
	case time.Now().Unix() > r.Until:
		return r, run.Errorf(run.CodeGone, "the reference to the archive expired")
	}
	r.Claim.Executor = executor
	return r, nil
}

func proofOf(key []byte, text string) []byte {
	sum := hmac.New(sha256.New, key)
	sum.Write([]byte("archive\x00" + text))
	return sum.Sum(nil)
}

// refKey returns the key that signs references, which all gateways share.
func (s *Service) refKey(ctx context.Context) ([]byte, error) {
	if key := s.refs.Load(); key != nil {
		return *key, nil
	}
	text, err := s.store.ServiceKey(ctx, "archives", rand.Text()+rand.Text())
	if err != nil {
		return nil, err
	}
	key := []byte(text)
	s.refs.Store(&key)
	return key, nil
}
