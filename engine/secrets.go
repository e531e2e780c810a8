package engine

import (
	"context"
	"maps"
	"slices"

	"github.com/drover-run/drover/run"
)

// Secrets follows references to secrets that are kept elsewhere.
type Secrets interface {
	// Check reports a reference of a run of the group that can not be followed.
	// Errors: not_found and forbidden, of the provider; invalid.
	Check(group string, ref run.SecretRef) error
	// Resolve gets the secrets by name. Errors: unavailable, where it may be
	// tried again; any other stands, and shows no secret.
	Resolve(ctx context.Context, group string, refs map[string]run.SecretRef) (map[string]run.Secret, error)
}

// checkSecrets tells of the references of a specification that can not be
// followed.
func (e *Engine) checkSecrets(spec *run.Spec) []run.Fault {
	if e.secrets == nil {
		return nil
	}
	var faults []run.Fault
	for _, name := range slices.Sorted(maps.Keys(spec.SecretsFrom)) {
		if err := e.secrets.Check(spec.Group, spec.SecretsFrom[name]); err != nil {
			if len(faults) == run.MaxFaults {
				return append(faults, run.Fault{Code: run.FaultTooMany, Detail: "there are more faults than are told here"})
			}
			faults = append(faults, run.Fault{Path: string(run.Path("secrets_from").Key(name)), Code: run.FaultUnknownSecret, Detail: err.Error()})
		}
	}
	return faults
}

// supply adds the secrets that are kept elsewhere to a definition. Where they
// are not to be had the task fails, and says why; where that may pass, who
// claimed it gives it back.
func (e *Engine) supply(ctx context.Context, d run.Definition) (run.Definition, error) {
	if len(d.SecretsFrom) == 0 || d.Fault != "" {
		return d, nil
	}
	if e.secrets == nil {
		return run.Definition{}, run.Errorf(run.CodeUnavailable, "this process hands out no secrets of providers")
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
