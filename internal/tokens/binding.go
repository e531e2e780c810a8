package tokens

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-run/drover/run"
)

// wildcard at the end of Binding.Executor matches any rest of an id.
const wildcard = "*"

// Binding restricts a token of the scope executor to one executor. The zero
// value restricts it to none: such a token may act as any executor, so its
// holder is trusted with the tasks of all pools.
type Binding struct {
	// Executor is the id of the executor, or a prefix of the ids of several
	// executors that share the token, with a * at its end.
	Executor string `yaml:"executor,omitempty"`
	// Pool is the pool whose tasks the executor may take; "" is any.
	Pool string `yaml:"pool,omitempty"`
	// Set is the executor set of which the executor may be a member; "" is
	// none.
	Set string `yaml:"set,omitempty"`
	// Fleet is the fleet and Instance the instance that the executor must be.
	// If Fleet is "", the executor is of no fleet. If only Instance is "", it
	// may be any instance of the fleet, and names it by a label.
	Fleet    string `yaml:"fleet,omitempty"`
	Instance string `yaml:"instance,omitempty"`
}

// Bound reports whether the binding restricts the token at all.
func (b Binding) Bound() bool { return b != Binding{} }

// AllowsExecutor reports whether the token may act as the executor.
func (b Binding) AllowsExecutor(id string) bool {
	prefix, several := strings.CutSuffix(b.Executor, wildcard)
	if !b.Bound() {
		return true
	}
	return id == b.Executor && !several || several && len(id) > len(prefix) && strings.HasPrefix(id, prefix)
}

// AllowsPool reports whether the token may take tasks of the pool.
func (b Binding) AllowsPool(pool string) bool { return b.Pool == "" || b.Pool == pool }

// AllowsSet reports whether the executor may be a member of the set; "" is no
// set.
func (b Binding) AllowsSet(set string) bool { return !b.Bound() || set == "" || b.Set == set }

// Owner names the owner of the tasks that are handed out for the token: the
// set, whose members continue each other's tasks, or else the executor. It
// stays the same if a token is replaced by another with the same binding.
func (b Binding) Owner() string {
	if b.Set != "" {
		return "set:" + b.Set
	}
	return "executor:" + b.Executor
}

// validate returns what is wrong with the binding of a token with the scopes.
func (b Binding) validate(scopes []Scope) error {
	if !b.Bound() {
		return nil
	}
	var errs []error
	if !slices.Equal(scopes, []Scope{Executor}) {
		errs = append(errs, errors.New("only a token with the scope executor alone can be bound to an executor"))
	}
	if b.Executor == "" {
		errs = append(errs, errors.New("it is bound to a pool, a set or a fleet, but to no executor; executor: "+
			"name-* binds it to all executors whose ids begin with name-"))
	} else if prefix := strings.TrimSuffix(b.Executor, wildcard); !run.ValidName(prefix) {
		errs = append(errs, fmt.Errorf("executor %q is neither an id nor the beginning of one and a *", b.Executor))
	}
	if b.Pool != "" && !run.ValidName(b.Pool) {
		errs = append(errs, fmt.Errorf("pool %q is not a name", b.Pool))
	}
	if b.Set != "" && !run.ValidName(b.Set) {
		errs = append(errs, fmt.Errorf("set %q is not a name", b.Set))
	}
	if b.Fleet != "" && !run.ValidName(b.Fleet) {
		errs = append(errs, fmt.Errorf("fleet %q is not a name", b.Fleet))
	}
	if b.Fleet != "" && b.Pool == "" {
		errs = append(errs, errors.New("it is bound to a fleet, but to no pool"))
	}
	if b.Instance != "" && b.Fleet == "" {
		errs = append(errs, errors.New("it is bound to an instance, but to no fleet"))
	}
	return errors.Join(errs...)
}
