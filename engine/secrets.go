package engine

import (
	"context"
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

// resolveSecrets adds the secrets of providers to a definition. If a secret is
// permanently unavailable, the task fails with the reason. If a retry may
// succeed, the executor that claimed the task requeues it.
func (e *Engine) resolveSecrets(ctx context.Context, d run.Definition) (run.Definition, error) {
	if len(d.SecretsFrom) == 0 || d.Fault != "" {
		return d, nil
	}
	if e.secrets == nil {
		return run.Definition{}, run.Errorf(run.CodeUnavailable, "this process has no secret providers")
	}
	secrets, err := e.secrets.Resolve(ctx, d.RunGroup, d.SecretsFrom)
	switch run.CodeOf(err) {
	case "":
		d.Supply(secrets)
	case run.CodeNotFound, run.CodeForbidden, run.CodeInvalid:
		d.Fault = err.Error()
	default:
		return run.Definition{}, err
	}
	return d, nil
}
