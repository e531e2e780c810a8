package roles

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/drover-run/drover/run"
)

const (
	// refreshEvery bounds how long a gateway applies grants that were changed at another
	// one, together with the duration of a read.
	refreshEvery = 2 * time.Second
	// readTimeout bounds a read of the store.
	readTimeout = 5 * time.Second
	// maxAge is how long grants that were read stay in force if they cannot be read again:
	// one of them may have been withdrawn since.
	maxAge = time.Minute
	// maxSize bounds the bytes of all grants, which every gateway reads again and again.
	maxSize = 1 << 20
)

// Store is the part of the records that Grants uses.
type Store interface {
	ListRoleGrants(ctx context.Context) ([]run.RoleGrants, error)
	PutRoleGrants(ctx context.Context, g run.RoleGrants, expected *int64) (_ run.RoleGrants, created bool, _ error)
	DeleteRoleGrants(ctx context.Context, name string, expected *int64) error
}

// GrantsOptions are the settings of Grants.
type GrantsOptions struct {
	// Issuer is the gateway's provider.
	Issuer string
	// UserPrefix is what Drover puts before the names of the provider's users, which grants
	// lack.
	UserPrefix string
	// File has more grants; nil: none.
	File *File
	// Overridden names the setting that gives scopes to all users, so no grant has an
	// effect; "" if there is none.
	Overridden string
}

// Grants are the grants that a gateway applies: those in its file, and those stored in the
// records. BindingsOf does no I/O: Run reads the stored grants again and again. If that
// fails, the grants that were read last stay in force for a minute.
type Grants struct {
	opts   GrantsOptions
	store  Store
	logger *slog.Logger

	// reading is held while the grants are read: an earlier read never replaces the result
	// of a later one, which may lack a grant that was revoked.
	reading sync.Mutex
	stored  atomic.Pointer[snapshot] // nil: not read yet
}

var (
	_ Subjects          = (*Grants)(nil)
	_ run.RoleGrantsAPI = (*Grants)(nil)
)

// snapshot is what the records had at one time.
type snapshot struct {
	lists []run.RoleGrants
	index index
	at    time.Time // when the read began
}

// index has the bindings of grants by what the grants name.
type index struct {
	all               Bindings // of all users
	subjects, members map[string]Bindings
}

func newIndex(grants ...Policy) index {
	x := index{subjects: map[string]Bindings{}, members: map[string]Bindings{}}
	for _, p := range grants {
		for _, g := range p {
			switch {
			case g.Subject == allSubjects:
				x.all = append(x.all, g.Binding)
			case g.Subject != "":
				x.subjects[g.Subject] = append(x.subjects[g.Subject], g.Binding)
			default:
				x.members[g.Members] = append(x.members[g.Members], g.Binding)
			}
		}
	}
	return x
}

func (x index) matching(subject string, memberOf []string) Bindings {
	out := slices.Concat(x.all, x.subjects[subject])
	for _, group := range memberOf {
		out = append(out, x.members[group]...)
	}
	return out
}

// NewGrants reads the stored grants. If the store is unavailable, Run reads them later, and
// until then BindingsOf returns unavailable.
func NewGrants(ctx context.Context, store Store, logger *slog.Logger, opts GrantsOptions) *Grants {
	g := &Grants{opts: opts, store: store, logger: logger}
	if err := g.Refresh(ctx); err != nil {
		logger.WarnContext(ctx, "failed to read the stored role grants", "error", err)
	}
	return g
}

// Run reads the stored grants until ctx ends.
func (g *Grants) Run(ctx context.Context) error {
	ticker := time.NewTicker(refreshEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := g.Refresh(ctx); err != nil && ctx.Err() == nil {
			g.logger.WarnContext(ctx, "failed to read the stored role grants; the last known ones stay in force", "error", err)
		}
	}
}

// BindingsOf implements Subjects.
func (g *Grants) BindingsOf(subject string, memberOf []string) (Bindings, error) {
	stored := g.stored.Load()
	if stored == nil {
		return nil, run.Errorf(run.CodeUnavailable, "the stored role grants could not be read yet")
	}
	if age := time.Since(stored.at); age > maxAge {
		return nil, run.Errorf(run.CodeUnavailable, "the stored role grants could not be read for %s", age.Round(time.Second))
	}
	return append(stored.index.matching(subject, memberOf), g.filed().matching(subject, memberOf)...).merged(), nil
}

// filed returns the grants in the file.
func (g *Grants) filed() Policy {
	if g.opts.File == nil {
		return nil
	}
	return g.opts.File.policy.Current()
}

// Refresh reads the stored grants. Errors: unavailable.
func (g *Grants) Refresh(ctx context.Context) error {
	g.reading.Lock()
	defer g.reading.Unlock()
	at := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, readTimeout, fmt.Errorf("the records did not answer within %s", readTimeout))
	defer cancel()
	lists, err := g.store.ListRoleGrants(ctx)
	if err != nil {
		return err
	}
	before := g.stored.Load()
	for i := range lists {
		lists[i] = understood(lists[i])
		if x := lists[i]; x.Unknown > 0 && (before == nil || !slices.ContainsFunc(before.lists, func(y run.RoleGrants) bool { return y.Version == x.Version })) {
			g.logger.WarnContext(ctx, "stored role grants have no effect: a newer version wrote them", "name", x.Name, "count", x.Unknown)
		}
	}
	g.stored.Store(&snapshot{lists: lists, index: newIndex(g.policyOf(lists)), at: at})
	return nil
}

// understood moves the grants that are not valid for this version to the unknown ones:
// it may misunderstand them, and so give rights that they do not.
func understood(x run.RoleGrants) run.RoleGrants {
	valid := slices.DeleteFunc(slices.Clone(x.Grants), func(g run.RoleGrant) bool { return len(checkGrant(g)) > 0 })
	x.Unknown += len(x.Grants) - len(valid)
	x.Grants = valid
	return x
}

// policyOf returns the grants to the users of the gateway's provider.
func (g *Grants) policyOf(lists []run.RoleGrants) Policy {
	var p Policy
	for _, x := range lists {
		for _, one := range x.Grants {
			if x.Issuer == g.opts.Issuer {
				p = append(p, Grant{Subject: one.Subject, Members: one.Members, Binding: Binding{Role: Role(one.Role), Groups: one.Groups}})
			}
		}
	}
	return p
}

// ListRoleGrants implements run.RoleGrantsAPI.
func (g *Grants) ListRoleGrants(ctx context.Context) (run.RoleGrantsView, error) {
	if err := g.Refresh(ctx); err != nil {
		return run.RoleGrantsView{}, err
	}
	v := run.RoleGrantsView{Issuer: g.opts.Issuer, Stored: g.stored.Load().lists}
	if g.opts.File != nil {
		v.File = []run.RoleGrant{}
	}
	for _, x := range g.filed() {
		v.File = append(v.File, run.RoleGrant{Subject: x.Subject, Members: x.Members, Role: string(x.Role), Groups: x.Groups})
	}
	return v, nil
}

// GetRoleGrants implements run.RoleGrantsAPI.
func (g *Grants) GetRoleGrants(ctx context.Context, name string) (run.RoleGrants, error) {
	if err := g.Refresh(ctx); err != nil {
		return run.RoleGrants{}, err
	}
	lists := g.stored.Load().lists
	i := slices.IndexFunc(lists, func(x run.RoleGrants) bool { return x.Name == name })
	if i < 0 {
		return run.RoleGrants{}, run.Errorf(run.CodeNotFound, "there are no role grants %s", name)
	}
	return lists[i], nil
}

// PutRoleGrants implements run.RoleGrantsAPI. The other gateways apply the grants when they
// read the records again.
func (g *Grants) PutRoleGrants(ctx context.Context, x run.RoleGrants, expected *int64, by string) (run.RoleGrants, bool, error) {
	if g.opts.Overridden != "" {
		return run.RoleGrants{}, false, run.Errorf(run.CodeNotSupported, "%s gives a scope to all users, so no grant of a role would have an effect: remove it first", g.opts.Overridden)
	}
	if err := g.check(ctx, x); err != nil {
		return run.RoleGrants{}, false, err
	}
	x.Issuer, x.UpdatedBy = g.opts.Issuer, by
	put, created, err := g.store.PutRoleGrants(ctx, x, expected)
	if err != nil {
		return run.RoleGrants{}, false, err
	}
	g.logger.InfoContext(ctx, "role grants stored", "name", x.Name, "version", put.Version, "grants", put.Grants, "subject", by)
	return put, created, g.apply(ctx)
}

// check validates a list that replaces the stored one of its name.
func (g *Grants) check(ctx context.Context, x run.RoleGrants) error {
	faults := CheckGrants(x.Grants)
	for i, one := range x.Grants {
		if why := Prefixed(one.Subject, g.opts.UserPrefix); why != "" {
			faults = append(faults, run.Fault{Path: fmt.Sprintf("grants[%d].subject", i), Code: run.FaultBadValue, Detail: why})
		}
	}
	if !run.ValidName(x.Name) {
		faults = append(faults, run.Fault{Path: "name", Code: run.FaultBadFormat, Detail: fmt.Sprintf(
			"%q is not a name: up to %d of a to z, 0 to 9, dot, underscore and dash", x.Name, run.MaxNameLength)})
	}
	if len(x.Note) > run.MaxRoleGrantsNote {
		faults = append(faults, run.Fault{Path: "note", Code: run.FaultOverLimit, Detail: fmt.Sprintf("the note has %d bytes; the limit is %d", len(x.Note), run.MaxRoleGrantsNote)})
	}
	if strings.ContainsFunc(x.Note, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
		faults = append(faults, run.Fault{Path: "note", Code: run.FaultBadFormat, Detail: "the note has a control character"})
	}
	if len(faults) == 0 {
		if err := g.Refresh(ctx); err != nil {
			return err
		}
		lists, file := g.stored.Load().lists, g.filed()
		if err := g.mayReplace(lists, x); err != nil {
			return err
		}
		others := slices.DeleteFunc(slices.Clone(lists), func(y run.RoleGrants) bool { return y.Name == x.Name })
		x.Issuer = g.opts.Issuer
		faults = checkPatterns(newIndex(file, g.policyOf(lists)), newIndex(file, g.policyOf(append(others, x))), x.Grants)
	}
	if len(faults) > 0 {
		return run.InvalidError("the role grants are not valid", faults)
	}
	return nil
}

// mayReplace refuses lists that would change what other grants mean, and more grants than
// all gateways can read every few seconds.
func (g *Grants) mayReplace(lists []run.RoleGrants, x run.RoleGrants) error {
	size := sizeOf(x)
	for _, y := range lists {
		switch {
		case y.Name != x.Name:
			size += sizeOf(y)
		case y.Issuer != g.opts.Issuer:
			return run.Errorf(run.CodeConflict, "the role grants %s are for the users of %s, and would then be for those of %s: delete them first, or choose another name", y.Name, y.Issuer, g.opts.Issuer)
		case y.Unknown > 0:
			return run.Errorf(run.CodeConflict, "the role grants %s have %d grants that a newer version of Drover stored, and that would be lost: change them by a gateway of that version, or delete them first", y.Name, y.Unknown)
		}
	}
	if size > maxSize {
		return run.Errorf(run.CodeExhausted, "all role grants would have %d bytes; the limit is %d: grant roles to groups of users, or use fewer patterns", size, maxSize)
	}
	return nil
}

// sizeOf returns the bytes of what a list names.
func sizeOf(x run.RoleGrants) int {
	n := len(x.Note)
	for _, g := range x.Grants {
		n += len(g.Subject) + len(g.Members) + len(g.Role)
		for _, pattern := range g.Groups {
			n += len(pattern)
		}
	}
	return n
}

// DeleteRoleGrants implements run.RoleGrantsAPI.
func (g *Grants) DeleteRoleGrants(ctx context.Context, name string, expected *int64, by string) error {
	if err := g.store.DeleteRoleGrants(ctx, name, expected); err != nil {
		return err
	}
	g.logger.InfoContext(ctx, "role grants deleted", "name", name, "subject", by)
	return g.apply(ctx)
}

// apply reads a change that was stored, also if the client is gone. If that fails, Run tries
// it again.
func (g *Grants) apply(ctx context.Context) error {
	if err := g.Refresh(context.WithoutCancel(ctx)); err != nil {
		g.logger.WarnContext(ctx, "failed to read the stored role grants; the last known ones stay in force", "error", err)
		return run.Errorf(run.CodeUnavailable, "the change is stored, and this gateway could not apply it yet; it does so when the records answer")
	}
	return nil
}
