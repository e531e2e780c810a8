package engine

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/drover-run/drover/run"
)

// Secrets resolves references to secrets that a provider stores.
type Secrets interface {
	// Check returns an error for a reference that a run of the group cannot
	// use. Errors: not_found and forbidden, of the provider; invalid.
	Check(group string, ref run.SecretRef) error
	// Resolve returns the secrets by name. Errors: unavailable if a retry may
	// succeed; any other error is permanent, and shows no secret.
	Resolve(ctx context.Context, group string, refs map[string]run.SecretRef) (map[string]run.Secret, error)
	// CheckPool returns an error for a reference that the registries of pools
	// cannot use: no run may use theirs. Errors are those of Check.
	CheckPool(ref run.SecretRef) error
	// ResolvePool returns the passwords of a pool's registries by host, and an
	// error as of Resolve for each host whose password it cannot read.
	ResolvePool(ctx context.Context, refs map[string]run.SecretRef) (map[string]run.Secret, map[string]error)
}

// checkSecrets returns the faults of references that cannot be resolved.
func (e *Engine) checkSecrets(spec *run.Spec) []run.Fault {
	if e.secrets == nil {
		return nil
	}
	var faults []run.Fault
	for _, name := range slices.Sorted(maps.Keys(spec.SecretsFrom)) {
		if err := e.secrets.Check(spec.Group, spec.SecretsFrom[name]); err != nil {
			if len(faults) == run.MaxFaults {
				return append(faults, run.Fault{Code: run.FaultTooMany, Detail: "there are more faults than are listed here"})
			}
			faults = append(faults, run.Fault{Path: string(run.Path("secrets_from").Key(name)), Code: run.FaultUnknownSecret, Detail: err.Error()})
		}
	}
	return faults
}

// checkPoolSecrets returns the faults of the credentials of a pool that cannot be resolved.
func checkPoolSecrets(secrets Secrets, p run.Pool) []run.Fault {
	if secrets == nil {
		return nil
	}
	var faults []run.Fault
	for _, host := range slices.Sorted(maps.Keys(p.Images.Registries)) {
		if err := secrets.CheckPool(p.Images.Registries[host].PasswordFrom); err != nil {
			path := run.Path("registries").Key(host).Key("password_from")
			faults = append(faults, run.Fault{Path: string(path), Code: run.FaultUnknownSecret, Detail: err.Error()})
		}
	}
	return faults
}

// resolveSecrets adds the secrets of providers to a definition. If a secret is
// permanently unavailable, the task fails with the reason. If a retry may
// succeed, the executor that claimed the task requeues it.
func (e *Engine) resolveSecrets(ctx context.Context, d run.Definition) (run.Definition, error) {
	if len(d.SecretsFrom) == 0 && len(d.PoolRegistries) == 0 || d.Fault != "" {
		return d, nil
	}
	if e.secrets == nil {
		return run.Definition{}, run.Errorf(run.CodeUnavailable, "this process has no secret providers")
	}
	// The executor does not wait for two providers one after the other.
	var passwords map[string]run.Secret
	var failed map[string]error
	var pool sync.WaitGroup
	if refs := passwordRefs(d); len(refs) > 0 {
		pool.Go(func() { passwords, failed = e.secrets.ResolvePool(ctx, refs) })
	}
	secrets, err := e.secrets.Resolve(ctx, d.RunGroup, d.SecretsFrom)
	pool.Wait()
	if err == nil {
		d.Supply(secrets)
		err = supplyPool(ctx, e.logger, &d, passwords, failed)
	}
	switch {
	case err == nil:
	case permanent(run.CodeOf(err)):
		d.Fault = err.Error()
	default:
		return run.Definition{}, err
	}
	return d, nil
}

// passwordRefs returns the references of the pool's registries by host.
func passwordRefs(d run.Definition) map[string]run.SecretRef {
	refs := make(map[string]run.SecretRef, len(d.PoolRegistries))
	for host, r := range d.PoolRegistries {
		refs[host] = r.PasswordFrom
	}
	return refs
}

// supplyPool adds the passwords of the pool's registries to a definition. Without one that
// an image of the task needs, or that a retry may get, it fails. Its errors are for the
// run's users, who may not see the settings of providers; the log has the details.
func supplyPool(ctx context.Context, log *slog.Logger, d *run.Definition, passwords map[string]run.Secret, failed map[string]error) error {
	if d.Fault != "" {
		return nil
	}
	var first error
	for _, host := range slices.Sorted(maps.Keys(failed)) {
		if _, own := d.Auth[host]; own {
			continue
		}
		log.WarnContext(ctx, "failed to read the pool's credentials for a registry",
			"registry", host, "provider", d.PoolRegistries[host].PasswordFrom.Provider, "run", d.Key.Run, "error", failed[host])
		if code := run.CodeOf(failed[host]); first == nil && (d.Pulls(host) || !permanent(code)) {
			first = run.Errorf(code, "the pool's credentials for %s are not available: %s", host, code)
		}
	}
	if first == nil {
		d.SupplyPool(passwords)
	}
	return first
}

// permanent reports whether a provider that failed with the code fails again.
func permanent(code run.Code) bool {
	return code == run.CodeNotFound || code == run.CodeForbidden || code == run.CodeInvalid
}
