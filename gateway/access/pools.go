package access

import (
	"context"
	"slices"

	"github.com/drover-run/drover/internal/roles"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/run"
)

// seesAll reports whether a principal may see what belongs to all groups.
func seesAll(p tokens.Principal) bool { return !p.Restricted() || p.Roles.Allows(roles.View, "") }

// SeesPool reports whether a principal may see a pool: it may be used by runs of a group
// that the principal may see. The pool gets only the patterns that concern the principal,
// and no credentials.
func SeesPool(p tokens.Principal, pool *run.Pool) bool {
	if seesAll(p) {
		return true
	}
	paths := pool.GroupPaths()
	if len(paths) == 0 || len(p.Roles.Within(roles.View, paths)) == 0 {
		return false
	}
	pool.Images.Registries = nil
	pool.AllowedGroups = concerning(p, pool.AllowedGroups)
	pool.FleetGroups = slices.Clone(pool.FleetGroups)
	for i := range pool.FleetGroups {
		pool.FleetGroups[i].AllowedGroups = concerning(p, pool.FleetGroups[i].AllowedGroups)
	}
	return true
}

// concerning returns the patterns that have groups which a principal may see.
func concerning(p tokens.Principal, patterns []string) []string {
	return slices.DeleteFunc(slices.Clone(patterns), func(pattern string) bool {
		path, err := run.GroupPattern(pattern)
		return err != nil || len(p.Roles.Within(roles.View, []string{path})) == 0
	})
}

// ShowFleet leaves in a fleet only what a principal may see of it: not the patterns of
// others, nor the settings of its plugin unless the principal may see all groups.
func ShowFleet(p tokens.Principal, f *run.Fleet) {
	if seesAll(p) {
		return
	}
	f.Spec.AllowedGroups = concerning(p, f.Spec.AllowedGroups)
	f.Spec = showSettings(run.SettingsOf(f.Spec)).ApplyTo(f.Spec)
}

// ShowRevisions is ShowFleet for the revisions of a fleet.
func ShowRevisions(p tokens.Principal, all []run.FleetRevision) {
	if seesAll(p) {
		return
	}
	for i := range all {
		all[i].Settings = showSettings(all[i].Settings)
	}
}

// showSettings returns what tenants may see of the settings of a fleet.
func showSettings(s run.FleetSettings) run.FleetSettings {
	return run.FleetSettings{Plugin: s.Plugin, Bootstrap: s.Bootstrap}
}

// SeesFleets returns the fleets that a principal may see, and what it may see of them. It
// reads the pools only if that depends on them.
func SeesFleets(p tokens.Principal, all []run.Fleet, pools func() ([]run.Pool, error)) ([]run.Fleet, error) {
	if seesAll(p) {
		return all, nil
	}
	list, err := pools()
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(list))
	for i := range list {
		seen[list[i].Name] = SeesPool(p, &list[i])
	}
	all = slices.DeleteFunc(all, func(f run.Fleet) bool { return !seen[f.Spec.Pool] })
	for i := range all {
		ShowFleet(p, &all[i])
	}
	return all, nil
}

// inFleet refuses a principal that may not see a fleet, or lacks a permission. It may see
// the fleets of the pools that it may see, since a pool is for the groups that all of its
// fleets allow. To change a fleet, it needs the permission in all groups of the fleet.
func (r *Roles) inFleet(ctx context.Context, p tokens.Principal, need roles.Permission, name string) error {
	if r.resources.Fleet == nil || p.Roles.Allows(need, "") {
		return nil // the handler says if there are no fleets
	}
	f, err := r.resources.Fleet(ctx, name)
	if err != nil {
		return err
	}
	if !seesAll(p) {
		pool, err := r.resources.Pool(ctx, f.Spec.Pool)
		if err != nil && run.CodeOf(err) != run.CodeNotFound {
			return err
		}
		if err != nil || !SeesPool(p, &pool) {
			return run.Errorf(run.CodeNotFound, "there is no fleet %s", name)
		}
	}
	if need == roles.View {
		return nil
	}
	paths := f.Spec.AllowedPaths()
	if len(paths) == 0 || slices.ContainsFunc(paths, func(path string) bool { return !p.Roles.Allows(need, path) }) {
		return run.Errorf(run.CodeForbidden, "%s does not have %s in all groups that may use the fleet %s", p.Name, roles.Needs(need), name)
	}
	return nil
}
