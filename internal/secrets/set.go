package secrets

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/run"
)

const (
	// providerTimeout is the timeout of a provider: an executor waits for the answer.
	providerTimeout = 10 * time.Second
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

// entry is a provider and the groups that may use it.
type entry struct {
	provider Provider
	groups   []string // groups, and all groups below them; none: all groups
}

// Set is a set of providers by name. It is safe for concurrent use. The zero
// Set has no providers.
type Set struct {
	entries map[string]entry
	log     *slog.Logger
}

// Check returns an error if a run of the group cannot use the reference. Codes:
// not_found for an unknown provider, forbidden for a provider that is not for
// the group, invalid.
func (s *Set) Check(group string, ref run.SecretRef) error {
	e, err := s.find(group, ref)
	if err != nil {
		return err
	}
	return e.provider.Check(ref)
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
			values[i], err = s.get(ctx, group, refs[name])
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

func (s *Set) get(ctx context.Context, group string, ref run.SecretRef) (run.Secret, error) {
	e, err := s.find(group, ref)
	if err != nil {
		return "", err
	}
	value, err := e.provider.Get(ctx, ref)
	switch {
	case err != nil:
		if run.CodeOf(err) == run.CodeUnavailable {
			s.log.WarnContext(ctx, "failed to read a secret from its provider", "provider", ref.Provider, "error", err)
		}
		return "", err
	case len(value) >= run.MaxVariableBytes:
		return "", run.Errorf(run.CodeInvalid, "it has %d bytes; a variable must have less than %d", len(value), run.MaxVariableBytes)
	case strings.Contains(value.Reveal(), "\x00"):
		return "", run.Errorf(run.CodeInvalid, "it has a NUL byte, which a variable cannot hold")
	}
	return value, nil
}

func (s *Set) find(group string, ref run.SecretRef) (entry, error) {
	e, ok := s.entries[ref.Provider]
	if !ok {
		known := "none is configured (gateway.secret_providers_file)"
		if len(s.entries) > 0 {
			known = "there are " + strings.Join(slices.Sorted(maps.Keys(s.entries)), ", ")
		}
		return entry{}, run.Errorf(run.CodeNotFound, "there is no provider of secrets named %q; %s", ref.Provider, known)
	}
	if len(e.groups) > 0 && !slices.ContainsFunc(e.groups, func(g string) bool { return below(group, g) }) {
		return entry{}, run.Errorf(run.CodeForbidden, "the provider %s is not for runs of %s", ref.Provider, group)
	}
	return e, nil
}

// below reports whether a group is another one or below it.
func below(group, other string) bool {
	rest, ok := strings.CutPrefix(group, strings.TrimSuffix(other, "/"))
	return ok && (rest == "" || rest[0] == '/')
}
