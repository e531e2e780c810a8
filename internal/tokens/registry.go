package tokens

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/drover-run/drover/run"
)

// The intervals of a Registry.
const (
	// refreshEvery bounds how long a token that was revoked at another gateway is
	// still accepted, together with the duration of a read.
	refreshEvery = 5 * time.Second
	// recordEvery is how often the last uses are written: at most one write for
	// each token.
	recordEvery = time.Minute
	// recordTimeout bounds a call of the store.
	recordTimeout = 5 * time.Second
)

// Source lists tokens and authenticates them. List and File are Sources.
type Source interface {
	Authenticator
	// AuthenticateHash is like Authenticate for the hash of a token.
	AuthenticateHash(hash string) (Principal, bool)
	Tokens() []Token
}

// Store is the part of the records that a Registry uses.
type Store interface {
	TokenRecords(ctx context.Context, revoked bool) ([]run.TokenRecord, error)
	CreateToken(ctx context.Context, r run.TokenRecord) error
	RecordTokenUses(ctx context.Context, uses []run.TokenRecord) error
	RecordTokenRevocation(ctx context.Context, r run.TokenRecord) error
}

// Registry authenticates the tokens of a Source, and those that clients created at any
// gateway. It refuses those that were revoked at any gateway, and records their last
// uses. Authenticate does no I/O: Run reads the revocations and the created tokens, and
// writes the uses. A revocation is by the
// hash of the token, so an entry of the same name with another token is valid.
type Registry struct {
	// UserPrefix is what the names of a provider's users begin with, which no new token
	// may do. "" means that there are no users, or that their names have no prefix.
	UserPrefix string

	source Source
	store  Store
	logger *slog.Logger
	now    func() time.Time

	mu      sync.Mutex
	revoked map[string]run.TokenRecord // by hash, as the store had them last; nil: not read yet
	created created
	uses    map[string]run.TokenRecord // by hash: not written yet
	shared  []string                   // names that were logged as those of two subjects
}

var (
	_ Authenticator    = (*Registry)(nil)
	_ run.BearerTokens = (*Registry)(nil)
)

// NewRegistry reads the revocations and returns a Registry. If the store is
// unavailable, Run reads them later, and until then all tokens are refused as
// unavailable.
func NewRegistry(ctx context.Context, source Source, store Store, logger *slog.Logger) *Registry {
	r := &Registry{source: source, store: store, logger: logger, now: time.Now, uses: map[string]run.TokenRecord{}}
	if err := r.Refresh(ctx); err != nil {
		logger.WarnContext(ctx, "failed to read the revoked tokens", "error", err)
	}
	return r
}

// Run reads revocations and writes uses until ctx ends.
func (r *Registry) Run(ctx context.Context) error {
	ticker := time.NewTicker(refreshEvery)
	defer ticker.Stop()
	recorded := r.now()
	for {
		select {
		case <-ctx.Done():
			r.record(context.WithoutCancel(ctx))
			return nil
		case <-ticker.C:
		}
		if err := r.Refresh(ctx); err != nil && ctx.Err() == nil {
			r.logger.WarnContext(ctx, "failed to read the revoked tokens", "error", err)
		}
		if now := r.now(); now.Sub(recorded).Abs() >= recordEvery {
			recorded = now
			r.record(ctx)
		}
	}
}

// Authenticate implements Authenticator.
func (r *Registry) Authenticate(token string) (Principal, bool) {
	if p, ok := r.source.Authenticate(token); ok || p.Name != "" {
		return r.check(p, ok)
	}
	return r.check(r.createdTokens().authenticate(Hash(token), r.now()))
}

// AuthenticateHash is like Authenticate for the hash of a token.
func (r *Registry) AuthenticateHash(hash string) (Principal, bool) {
	if p, ok := r.source.AuthenticateHash(hash); ok || p.Name != "" {
		return r.check(p, ok)
	}
	return r.check(r.createdTokens().authenticate(hash, r.now()))
}

// createdTokens returns the tokens that clients created.
func (r *Registry) createdTokens() created {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.created
}

// check refuses a principal whose token was revoked, and notes the use of the others.
func (r *Registry) check(p Principal, ok bool) (Principal, bool) {
	if !ok || p.hash == "" {
		return p, ok
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.revoked == nil {
		return Principal{Name: p.Name, Refusal: run.Errorf(run.CodeUnavailable, "the revoked tokens could not be read yet")}, false
	}
	if x, found := r.revoked[p.hash]; found {
		return Principal{Name: p.Name, Refusal: run.Errorf(run.CodeTokenRevoked, "token %s was revoked at %s", p.Name, x.RevokedAt.UTC().Format(time.RFC3339))}, false
	}
	r.uses[p.hash] = run.TokenRecord{Hash: p.hash, Name: p.Name, LastUsed: r.now()}
	return p, true
}

// Refresh reads the revocations, and the tokens that clients created. No revocation is
// ever undone, so those that are known stay, also if a read began before one of them.
func (r *Registry) Refresh(ctx context.Context) error {
	list, err := r.read(ctx, true)
	if err != nil {
		return err
	}
	listed := r.source.Tokens()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.revoked == nil {
		r.revoked = make(map[string]run.TokenRecord, len(list))
	}
	r.created = r.created.with(list, r.logger)
	for _, x := range list {
		if !x.RevokedAt.IsZero() {
			r.revoked[x.Hash] = x
		}
	}
	r.logShared(listed)
	return nil
}

// logShared logs names of tokens that another token or another kind of subject has too:
// both are the same subject. A token file may get such an entry later, and tokens may be
// older than a prefix of users. The caller holds the lock.
func (r *Registry) logShared(listed []Token) {
	created := map[string]bool{}
	for _, t := range r.created.valid(r.revoked, r.now()) {
		created[t.Name] = true
	}
	var shared []string
	log := func(name, why string) {
		if !slices.Contains(shared, name) && !slices.Contains(r.shared, name) {
			r.logger.Warn("a token shares its name with another subject, and so its approvals and secrets: use another name", "name", name, "reason", why)
		}
		shared = append(shared, name)
	}
	for _, t := range listed {
		if created[t.Name] {
			log(t.Name, "a token file has the name of a token that a client created")
		}
		created[t.Name] = true
	}
	for name := range created {
		if why := reserved(name, r.UserPrefix); why != "" {
			log(name, why)
		}
	}
	r.shared = shared
}

func (r *Registry) read(ctx context.Context, revoked bool) ([]run.TokenRecord, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, recordTimeout, fmt.Errorf("the records did not answer within %s", recordTimeout))
	defer cancel()
	return r.store.TokenRecords(ctx, revoked)
}

// record writes the uses since the last call. If that fails, the next call
// writes them.
func (r *Registry) record(ctx context.Context) {
	r.mu.Lock()
	uses := r.uses
	r.uses = map[string]run.TokenRecord{}
	r.mu.Unlock()
	if len(uses) == 0 {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, recordTimeout, fmt.Errorf("the records did not answer within %s", recordTimeout))
	defer cancel()
	list := make([]run.TokenRecord, 0, len(uses))
	for _, x := range uses {
		list = append(list, x)
	}
	// All gateways write in the same order, so that they do not lock each other out.
	slices.SortFunc(list, func(a, b run.TokenRecord) int { return cmp.Compare(a.Hash, b.Hash) })
	err := r.store.RecordTokenUses(ctx, list)
	if err == nil {
		return
	}
	r.logger.WarnContext(ctx, "failed to record the uses of tokens", "error", err)
	r.mu.Lock()
	defer r.mu.Unlock()
	for hash, x := range uses {
		if _, newer := r.uses[hash]; !newer {
			r.uses[hash] = x
		}
	}
}

// ListTokens implements run.BearerTokens.
func (r *Registry) ListTokens(ctx context.Context) ([]run.BearerToken, error) {
	list, err := r.read(ctx, false)
	if err != nil {
		return nil, err
	}
	records := make(map[string]run.TokenRecord, len(list))
	for _, x := range list {
		records[x.Hash] = x
	}
	entries := slices.Concat(r.source.Tokens(), r.createdTokens().entries)
	slices.SortFunc(entries, func(a, b Token) int { return cmp.Compare(a.Name, b.Name) })
	out := make([]run.BearerToken, len(entries))
	for i, x := range entries {
		out[i] = r.describe(x, records[x.hash()])
	}
	return out, nil
}

// describe returns a token as operators see it.
func (r *Registry) describe(t Token, record run.TokenRecord) run.BearerToken {
	out := run.BearerToken{
		Name: t.Name, Executor: t.Executor, Pool: t.Pool, Set: t.Set, Fleet: t.Fleet, Instance: t.Instance,
		Expires: t.Expires, LastUsed: record.LastUsed, RevokedAt: record.RevokedAt, RevokedBy: record.RevokedBy, CreatedBy: record.CreatedBy,
	}
	for _, s := range t.Scopes {
		out.Scopes = append(out.Scopes, string(s))
	}
	for _, b := range t.Roles {
		out.Bindings = append(out.Bindings, run.RoleBinding{Role: string(b.Role), Groups: b.Groups})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if here := r.uses[t.hash()].LastUsed; here.After(out.LastUsed) {
		out.LastUsed = here
	}
	return out
}

// RevokeToken implements run.BearerTokens.
func (r *Registry) RevokeToken(ctx context.Context, name, by string) (run.BearerToken, error) {
	entries := slices.Concat(r.source.Tokens(), r.createdTokens().entries)
	entries = slices.DeleteFunc(entries, func(t Token) bool { return t.Name != name })
	if len(entries) == 0 {
		return run.BearerToken{}, run.Errorf(run.CodeNotFound, "this gateway has no token %s", name)
	}
	// A token file may have got an entry with the name of a token that a client had
	// created: all of them are meant.
	for _, t := range entries {
		if err := r.store.RecordTokenRevocation(ctx, run.TokenRecord{Hash: t.hash(), Name: name, RevokedBy: by}); err != nil {
			return run.BearerToken{}, err
		}
	}
	t := entries[0]
	if err := r.Refresh(ctx); err != nil {
		return run.BearerToken{}, err
	}
	r.logger.InfoContext(ctx, "token revoked", "name", name, "tokens", len(entries), "subject", by)
	r.mu.Lock()
	record := r.revoked[t.hash()]
	r.mu.Unlock()
	return r.describe(t, record), nil
}
