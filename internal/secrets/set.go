package secrets

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/run"
)

const (
	// providerTimeout is the timeout of a provider. It is below the 10 s that an executor
	// waits for a claim, so that the executor gets the reason.
	providerTimeout = 7 * time.Second
	// maxConcurrent is how many secrets of a task are read concurrently.
	maxConcurrent = 8
)

// Provider provides secrets.
type Provider interface {
	// Get returns a secret. Its errors never show a value. Codes: not_found and
	// forbidden, which a retry does not resolve; invalid if the reference does
	// not suit this provider; unavailable.
	Get(ctx context.Context, ref run.SecretRef) (run.Secret, error)
	// Check returns an error if the reference does not suit this provider,
	// without reading the secret. Code: invalid.
	Check(ref run.SecretRef) error
}

// entry is a provider and who may use it.
type entry struct {
	provider Provider
	groups   []string // groups, and all groups below them; none: all groups
	pools    bool     // for the registries of pools, and for no run
}

// Set is a set of providers by name. It is safe for concurrent use. The zero
// Set has no providers.
type Set struct {
	entries map[string]entry
	log     *slog.Logger
}

// Check returns an error if a run of the group cannot use the reference. Codes:
// not_found for an unknown provider, forbidden for a provider that is not for
// the group, or for pools only, invalid.
func (s *Set) Check(group string, ref run.SecretRef) error {
	p, err := s.forRun(group, ref)
	if err != nil {
		return err
	}
	return p.Check(ref)
}

// CheckPool returns an error if the registries of pools cannot use the reference. Codes:
// not_found for an unknown provider, forbidden for a provider that is for runs, invalid.
func (s *Set) CheckPool(ref run.SecretRef) error {
	p, err := s.forPools(ref)
	if err != nil {
		return err
	}
	return p.Check(ref)
}

// Resolve returns the secrets of a run of the group, by the names under which
// the run refers to them. Errors are those of Check and of Provider.Get, and
// name the secret.
func (s *Set) Resolve(ctx context.Context, group string, refs map[string]run.SecretRef) (map[string]run.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	names := slices.Sorted(maps.Keys(refs))
	values := make([]run.Secret, len(names))
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(maxConcurrent)
	for i, name := range names {
		all.Go(func() (err error) {
			p, err := s.forRun(group, refs[name])
			if err == nil {
				values[i], err = get(ctx, p, refs[name])
			}
			if run.CodeOf(err) == run.CodeUnavailable {
				s.log.WarnContext(ctx, "failed to read a secret from its provider", "provider", refs[name].Provider, "error", err)
			}
			if err != nil {
				return fmt.Errorf("the secret %s: %w", name, err)
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	out := make(map[string]run.Secret, len(names))
	for i, name := range names {
		out[name] = values[i]
	}
	return out, nil
}

// ResolvePool returns the passwords of a pool's registries by host, and an error for each
// host whose password it cannot read. Errors are those of CheckPool and of Provider.Get.
func (s *Set) ResolvePool(ctx context.Context, refs map[string]run.SecretRef) (map[string]run.Secret, map[string]error) {
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	passwords, failed := make(map[string]run.Secret, len(refs)), make(map[string]error)
	var mu sync.Mutex
	var all errgroup.Group
	all.SetLimit(maxConcurrent)
	for host, ref := range refs {
		all.Go(func() error {
			var password run.Secret
			p, err := s.forPools(ref)
			if err == nil {
				password, err = get(ctx, p, ref)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed[host] = err
			} else {
				passwords[host] = password
			}
			return nil
		})
	}
	_ = all.Wait() // failed has the errors
	return passwords, failed
}

func get(ctx context.Context, p Provider, ref run.SecretRef) (run.Secret, error) {
	value, err := p.Get(ctx, ref)
	switch {
	case err != nil:
		return "", err
	case len(value) >= run.MaxVariableBytes:
		return "", run.Errorf(run.CodeInvalid, "it has %d bytes; a variable must have less than %d", len(value), run.MaxVariableBytes)
	case strings.Contains(value.Reveal(), "\x00"):
		return "", run.Errorf(run.CodeInvalid, "it has a NUL byte, which a variable cannot hold")
	}
	return value, nil
}

// forRun returns the provider of a reference, if runs of the group may use it.
func (s *Set) forRun(group string, ref run.SecretRef) (Provider, error) {
	e, err := s.find(ref, false)
	if err != nil {
		return nil, err
	}
	if e.pools {
		return nil, run.Errorf(run.CodeForbidden, "the provider %s is for pools, not for runs", ref.Provider)
	}
	if len(e.groups) > 0 && !slices.ContainsFunc(e.groups, func(g string) bool { return below(group, g) }) {
		return nil, run.Errorf(run.CodeForbidden, "the provider %s is not for runs of %s", ref.Provider, group)
	}
	return e.provider, nil
}

// forPools returns the provider of a reference, if pools may use it.
func (s *Set) forPools(ref run.SecretRef) (Provider, error) {
	e, err := s.find(ref, true)
	if err != nil {
		return nil, err
	}
	if !e.pools {
		return nil, run.Errorf(run.CodeForbidden, "the provider %s is for runs, which could read the password: pools need a provider with pools: true", ref.Provider)
	}
	return e.provider, nil
}

// find returns the provider of a reference. An error names those for pools, or for runs.
func (s *Set) find(ref run.SecretRef, pools bool) (entry, error) {
	if e, ok := s.entries[ref.Provider]; ok {
		return e, nil
	}
	var others []string
	for _, name := range slices.Sorted(maps.Keys(s.entries)) {
		if s.entries[name].pools == pools {
			others = append(others, name)
		}
	}
	known := "none is configured (gateway.secret_providers_file)"
	if len(others) > 0 {
		known = "there are " + strings.Join(others, ", ")
	}
	return entry{}, run.Errorf(run.CodeNotFound, "there is no provider of secrets named %q; %s", ref.Provider, known)
}

// below reports whether a group is another one or below it.
func below(group, other string) bool {
	rest, ok := strings.CutPrefix(group, strings.TrimSuffix(other, "/"))
	return ok && (rest == "" || rest[0] == '/')
}
