package relay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/run"
)

// caller is the executor that makes a call, or one of several executors that
// share a token.
type caller struct {
	name    string // of the token
	binding tokens.Binding
	headers []string // authorization headers of the call, for rechecks
}

// owner returns the owner to which task tokens are bound.
func (c caller) owner() string { return c.binding.Owner() }

// identity returns the identity to report to Temporal: the claimed executor if
// the token allows it, else the owner.
func (c caller) identity(claimed string) string {
	if id, ok := strings.CutPrefix(claimed, contract.ExecutorQueue("")); ok && c.allows(id) {
		return claimed
	}
	return c.owner()
}

func (c caller) allows(executor string) bool {
	return run.ValidName(executor) && c.binding.AllowsExecutor(executor)
}

// queue returns the kind of a task queue, and whether the caller may poll it.
func (c caller) queue(name string) (kind string, ok bool) {
	if name == contract.PoolQueue(c.binding.Pool) {
		return "pool", true
	}
	if pool, _, ok := contract.ParseLabelsQueue(name); ok {
		return "pool", pool == c.binding.Pool
	}
	if c.binding.Set != "" && name == contract.SetQueue(c.binding.Set) {
		return "set", true
	}
	id, ok := strings.CutPrefix(name, contract.ExecutorQueue(""))
	return "executor", ok && c.allows(id)
}

// instance returns the worker instance key to report to Temporal. The key
// depends on the credential, so no caller can name a worker of another
// credential.
func (c caller) instance(key string) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(c.owner() + "\x00" + key))
	return hex.EncodeToString(sum[:16])
}

type callerKey struct{}

func withCaller(ctx context.Context, c caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// callerOf returns the caller of an admitted call.
func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}
