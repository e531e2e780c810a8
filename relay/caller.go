package relay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/tokens"
)

// caller is the executor, or the several that share a token, on whose behalf a
// call is made.
type caller struct {
	name    string // of the token
	binding tokens.Binding
	headers []string // what the call said who it is, to be asked again
}

// owner is whom task tokens are handed to.
func (c caller) owner() string { return c.binding.Owner() }

// identity is what Temporal is told of who calls: the executor, as far as the
// token says who that is.
func (c caller) identity(claimed string) string {
	if id, ok := strings.CutPrefix(claimed, contract.ExecutorQueue("")); ok && c.is(id) {
		return claimed
	}
	return c.owner()
}

func (c caller) is(executor string) bool {
	return run.ValidName(executor) && c.binding.AllowsExecutor(executor)
}

// queue tells the kind of a queue that is the caller's own, and whether it is.
func (c caller) queue(name string) (kind string, ok bool) {
	if name == contract.PoolQueue(c.binding.Pool) {
		return "pool", true
	}
	if c.binding.Set != "" && name == contract.SetQueue(c.binding.Set) {
		return "set", true
	}
	id, ok := strings.CutPrefix(name, contract.ExecutorQueue(""))
	return "executor", ok && c.is(id)
}

// instance returns the key of a worker process as Temporal is told it: nobody
// can name that of another credential.
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

// callerOf returns who makes a call that the door let in.
func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}
