package tokens_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/tokens"
)

func TestBinding_AllowsExecutor(t *testing.T) {
	t.Parallel()
	for executor, allowed := range map[string]map[string]bool{
		"":          {"host-7": true, "anything": true},
		"host-7":    {"host-7": true, "host-70": false, "host-": false, "": false, "Host-7": false},
		"builder-*": {"builder-1": true, "builder-a.b": true, "builder-": false, "builder": false, "xbuilder-1": false},
	} {
		for id, want := range allowed {
			require.Equal(t, want, tokens.Binding{Executor: executor}.AllowsExecutor(id), "%q %q", executor, id)
		}
	}
	require.False(t, tokens.Binding{Pool: "p"}.AllowsExecutor("x"), "NewList rejects such a binding, and it allows nothing")
}

func TestBinding_pool_and_set(t *testing.T) {
	t.Parallel()
	b := tokens.Binding{Executor: "x"}
	require.True(t, b.AllowsPool("any"))
	require.True(t, b.AllowsSet(""))
	require.False(t, b.AllowsSet("s"), "a bound token is in no set but its own")
	b.Pool, b.Set = "p", "s"
	require.True(t, b.AllowsPool("p"))
	require.False(t, b.AllowsPool("q"))
	require.False(t, b.AllowsPool(""))
	require.True(t, b.AllowsSet("s"))
	require.False(t, b.AllowsSet("t"))
	require.True(t, tokens.Binding{}.AllowsSet("t"))
}

func TestBinding_Owner(t *testing.T) {
	t.Parallel()
	require.Equal(t, "executor:x", tokens.Binding{Executor: "x", Pool: "p"}.Owner())
	require.Equal(t, "set:s", tokens.Binding{Executor: "x", Set: "s"}.Owner())
}

func TestNewList_bindings(t *testing.T) {
	t.Parallel()
	token := func(b tokens.Binding, scopes ...tokens.Scope) []tokens.Token {
		return []tokens.Token{{Name: "t", Hash: tokens.Hash("t"), Scopes: scopes, Binding: b}}
	}
	for _, b := range []tokens.Binding{
		{Executor: "host-7"},
		{Executor: "h*"},
		{Executor: "host-7", Pool: "linux"},
		{Executor: "host-*", Pool: "linux", Set: "s"},
		{Executor: "host-*", Pool: "linux", Fleet: "f"},
		{Executor: "host-7", Pool: "linux", Fleet: "f", Instance: "zones/a/vm-1"},
	} {
		list, err := tokens.NewList(token(b, tokens.Executor))
		require.NoError(t, err)
		p, ok := list.Authenticate("t")
		require.True(t, ok)
		require.Equal(t, b, p.Binding)
	}
	for want, b := range map[string]tokens.Binding{
		"to no executor": {Pool: "linux"}, "no executor": {Set: "s"}, "neither an id": {Executor: "*"}, "and a *": {Executor: "a*b"},
		"pool": {Executor: "x", Pool: "a b"}, "set": {Executor: "x", Set: "a/b"},
		"fleet": {Executor: "x", Pool: "p", Fleet: "a b"}, "to no pool": {Executor: "x", Fleet: "f"}, "to no fleet": {Executor: "x", Pool: "p", Instance: "i"},
	} {
		_, err := tokens.NewList(token(b, tokens.Executor))
		require.ErrorContains(t, err, want)
	}
	for _, scopes := range [][]tokens.Scope{{tokens.Admin}, {tokens.Executor, tokens.Read}, {tokens.Write}} {
		_, err := tokens.NewList(token(tokens.Binding{Executor: "x"}, scopes...))
		require.ErrorContains(t, err, "scope executor alone")
	}
}
