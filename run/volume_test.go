package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// Tasks share persistent volumes only within a pool and a group root, and those of untrusted
// runs only within their group.
func TestDefine_volume_scope(t *testing.T) {
	t.Parallel()
	named := []run.Volume{{Path: "/t", Tmpfs: &run.Tmpfs{}}, {Path: "/c", Name: "cache"}}
	scope := func(pool, group string, untrusted bool, volumes []run.Volume) string {
		header := &run.Spec{Group: group, Untrusted: untrusted}
		return run.Define(header, &run.TaskSpec{Volumes: volumes}, run.ExpandedTask{Name: "t", Pool: pool}, run.Key{Run: "r"}, 1).VolumeScope
	}
	trusted := scope("p", "/a/b/c", false, named)
	require.Equal(t, run.PersistentVolumeScope("p", "/a/b"), trusted)
	require.Equal(t, trusted, scope("p", "/a/b/d", false, named), "the root decides")
	different := map[string]bool{trusted: true}
	for _, other := range []string{
		scope("q", "/a/b/c", false, named), scope("p", "/a/c", false, named), scope("p", "/a/b", true, named),
		scope("p", "/a/b/c", true, named), scope("p", "/a/b/d", true, named), scope("q", "/a/b/c", true, named),
	} {
		require.False(t, different[other], other)
		different[other] = true
	}
	require.Equal(t, run.UntrustedVolumeScope("p", "/a/b/c"), scope("p", "/a/b/c", true, named))
	require.Empty(t, scope("p", "/a/b/c", false, named[:1]))
	require.Empty(t, scope("p", "/a/b/c", true, nil))
}
