package engine

import (
	"context"
	"log/slog"
	"maps"
	"slices"

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
	secrets, err := e.secrets.Resolve(ctx, d.RunGroup, d.SecretsFrom)
	if err == nil {
		d.Supply(secrets)
		err = resolvePool(ctx, e.secrets, e.logger, &d)
	}
	switch run.CodeOf(err) {
	case "":
	case run.CodeNotFound, run.CodeForbidden, run.CodeInvalid:
		d.Fault = err.Error()
	default:
		return run.Definition{}, err
	}
	return d, nil
}

// resolvePool adds the passwords of the pool's registries to a definition. It fails only
// without one that an image of the task may need. Its errors are for the run's users, who may not see the settings of providers; the log has the details.
func resolvePool(ctx context.Context, secrets Secrets, logger *slog.Logger, d *run.Definition) error {
	if len(d.PoolRegistries) == 0 || d.Fault != "" {
		return nil
	}
	refs := make(map[string]run.SecretRef, len(d.PoolRegistries))
	for host, r := range d.PoolRegistries {
		if _, own := d.Auth[host]; !own {
			refs[host] = r.PasswordFrom
		}
	}
	passwords, failed := secrets.ResolvePool(ctx, refs)
	var first error
	for _, host := range slices.Sorted(maps.Keys(failed)) {
		logger.WarnContext(ctx, "failed to read the pool's credentials for a registry",
			"registry", host, "provider", refs[host].Provider, "run", d.Key.Run, "error", failed[host])
		if first == nil && d.Pulls(host) {
			code := run.CodeOf(failed[host])
			first = run.Errorf(code, "the pool's credentials for %s are not available: %s", host, code)
		}
	}
	if first == nil {
		d.SupplyPool(passwords)
	}
	return first
}
