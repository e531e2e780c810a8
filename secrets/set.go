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
	// patience bounds the wait for a provider: an executor waits with it.
	patience = 10 * time.Second
	// atOnce is how many secrets of a task are asked for at a time.
	atOnce = 8
)

// Provider keeps secrets.
type Provider interface {
	// Get returns a secret. Its errors never show a value. Codes: not_found
	// and forbidden, which stand until somebody changes something there;
	// invalid where the reference is not one of this provider's; unavailable.
	Get(ctx context.Context, ref run.SecretRef) (run.Secret, error)
	// Check reports a reference that can not be one of this provider's, without
	// asking for it. Code: invalid.
	Check(ref run.SecretRef) error
}

// entry is a provider and who may use it.
type entry struct {
	provider Provider
	groups   []string // with all below them; none: everybody
}

// Set is the providers by name. It is safe for concurrent use. The zero Set has
// none.
type Set struct {
	entries map[string]entry
	log     *slog.Logger
}

// Check reports a reference of a run of the group that can not be followed.
// Codes: not_found for a provider that there is not, forbidden for one that is
// not for the group, invalid.
func (s *Set) Check(group string, ref run.SecretRef) error {
	e, err := s.find(group, ref)
	if err != nil {
		return err
	}
	return e.provider.Check(ref)
}

// Resolve gets the secrets of a run of the group, by the names that they have
// there. Errors: those of Check, and those of Provider.Get, and name the secret.
func (s *Set) Resolve(ctx context.Context, group string, refs map[string]run.SecretRef) (map[string]run.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	names := slices.Sorted(maps.Keys(refs))
	values := make([]run.Secret, len(names))
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(atOnce)
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
			s.log.WarnContext(ctx, "a provider of secrets does not answer", slog.String("provider", ref.Provider), slog.Any("error", err))
		}
		return "", err
	case len(value) >= run.MaxVariableBytes:
		return "", run.Errorf(run.CodeInvalid, "it has %d bytes; the environment takes less than %d", len(value), run.MaxVariableBytes)
	case strings.Contains(value.Reveal(), "\x00"):
		return "", run.Errorf(run.CodeInvalid, "it has a NUL byte, which the environment can not hold")
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
		return entry{}, run.Errorf(run.CodeForbidden, "the provider %s gives nothing to runs of %s", ref.Provider, group)
	}
	return e, nil
}

// below reports whether a group is another one, or below it.
func below(group, other string) bool {
	rest, ok := strings.CutPrefix(group, strings.TrimSuffix(other, "/"))
	return ok && (rest == "" || rest[0] == '/')
}
