package tokens

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/internal/roles"
	"github.com/drover-run/drover/run"
)

// maxCreated bounds the tokens that clients create: each gateway has all of them in
// memory.
const maxCreated = 10_000

// CreateToken implements run.BearerTokens. The other gateways accept the token when they
// read the records again.
func (r *Registry) CreateToken(ctx context.Context, t run.BearerToken, by string) (string, run.BearerToken, error) {
	record := run.TokenRecord{
		Name: t.Name, Entry: &run.TokenEntry{Scopes: t.Scopes, Bindings: t.Bindings}, Expires: t.Expires, CreatedBy: by,
	}
	secret := New()
	record.Hash = Hash(secret)
	entry := entryOf(record)
	if slices.Contains(entry.Scopes, Executor) {
		return "", run.BearerToken{}, run.Errorf(run.CodeInvalid, "tokens of executors are in token files alone, where they are bound to executors")
	}
	if err := CheckName(t.Name, r.UserPrefix); err != nil {
		return "", run.BearerToken{}, err
	}
	if _, err := NewList([]Token{entry}); err != nil {
		return "", run.BearerToken{}, run.Errorf(run.CodeInvalid, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if !t.Expires.IsZero() && !t.Expires.After(r.now()) {
		return "", run.BearerToken{}, run.Errorf(run.CodeInvalid, "the token would have expired already")
	}
	if slices.ContainsFunc(r.source.Tokens(), func(x Token) bool { return x.Name == t.Name }) {
		return "", run.BearerToken{}, run.Errorf(run.CodeConflict, "there is a token named %s", t.Name)
	}
	r.mu.Lock()
	current := len(r.created.valid(r.revoked, r.now()))
	r.mu.Unlock()
	if current >= maxCreated {
		return "", run.BearerToken{}, run.Errorf(run.CodeExhausted, "there are %d tokens that clients created: revoke some", maxCreated)
	}
	if err := r.store.CreateToken(ctx, record); err != nil {
		return "", run.BearerToken{}, err
	}
	if err := r.Refresh(ctx); err != nil {
		return "", run.BearerToken{}, err
	}
	r.logger.InfoContext(ctx, "token created", "name", t.Name, "subject", by)
	return secret, r.describe(entry, record), nil
}

func entryOf(r run.TokenRecord) Token {
	t := Token{Name: r.Name, Hash: r.Hash, Expires: r.Expires}
	for _, s := range r.Entry.Scopes {
		t.Scopes = append(t.Scopes, Scope(s))
	}
	for _, b := range r.Entry.Bindings {
		t.Roles = append(t.Roles, roles.Binding{Role: roles.Role(b.Role), Groups: b.Groups})
	}
	return t
}

// created are the tokens that clients created, as the records had them last. It is not
// changed: a later reading makes another.
type created struct {
	entries []Token
	byHash  map[string]hashedToken
}

// with returns the tokens and those of the records, of which none is ever removed. A
// token that a newer version wrote may not be valid here, and is refused.
func (c created) with(records []run.TokenRecord, logger *slog.Logger) created {
	out := created{entries: slices.Clone(c.entries), byHash: make(map[string]hashedToken, len(records))}
	maps.Copy(out.byHash, c.byHash)
	for _, record := range records {
		if _, known := out.byHash[record.Hash]; known || record.Entry == nil {
			continue
		}
		one, err := NewList([]Token{entryOf(record)})
		if err != nil {
			logger.Warn("failed to read a token of the records", "name", record.Name, "error", err)
			continue
		}
		out.entries, out.byHash[record.Hash] = append(out.entries, one.entries...), one.tokens[0]
	}
	return out
}

// authenticate is Authenticator.Authenticate for the hash of a token. The time of the
// lookup may depend on the hash, which tells nothing of a token.
func (c created) authenticate(hash string, now time.Time) (Principal, bool) {
	t, ok := c.byHash[hash]
	if !ok {
		return Principal{}, false
	}
	return t.valid(now)
}

// valid returns the tokens that are neither revoked nor expired.
func (c created) valid(revoked map[string]run.TokenRecord, now time.Time) []Token {
	return slices.DeleteFunc(slices.Clone(c.entries), func(t Token) bool {
		_, gone := revoked[t.hash()]
		return gone || !t.Expires.IsZero() && !now.Before(t.Expires)
	})
}
