package set

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/test/harness"
)

// TestSet_archives transfers a workspace from a host to the pods of an executor
// set and back. In each direction the test kills a member during the transfer,
// and another member continues it.
func TestSet_archives(t *testing.T) {
	t.Parallel()
	size := 4 << 20
	if harness.Soak() {
		size = 256 << 20
	}
	once := filepath.Join(t.TempDir(), "once")
	require.NoError(t, os.WriteFile(once, nil, 0o600))
	chaos := []string{"DROVER_CHAOS_FREEZE=moving", "DROVER_CHAOS_ONCE=" + once}
	h := newExecutorSet(t, 2, "4", chaos...)
	h.parts.AddExecutor("host", "1").AwaitReady()
	h.parts.AwaitPath("/api/v1/pools/shell", func(body string) bool { return strings.Contains(body, `"online":1`) })
	pod := fmt.Sprintf("pool: blue\n    image: %s\n    pull_policy: never\n    working_dir: /work/place", h.cluster.Image)
	id := h.parts.Submit(fmt.Sprintf(`name: there-and-back
group: /test/archives
tasks:
  make:
    pool: shell
    steps:
      - run: head -c %[2]d /dev/urandom > noise; sha256sum noise > sum
      - save_workspace:
  turn:
    approval: true
    %[1]s
    depends: [make]
    steps:
      - restore_workspace:
      - run: sha256sum -c sum; mv noise turned
      - save_workspace: {paths: [turned], to: next}
  more:
    approval: true
    %[1]s
    depends: [turn]
    steps:
      - run: head -c %[2]d /dev/urandom > more; sha256sum more > sum-of-more
      - save_workspace:
  check:
    pool: shell
    depends: [make, turn, more]
    steps:
      - restore_workspace:
      - run: sha256sum -c sum; sha256sum -c sum-of-more; cmp noise next/turned; wc -c < next/turned
`, pod, size)).ID
	for _, task := range []string{"turn", "more"} {
		harness.KillDuringTransfer(t, h.parts, once, id, task, func() *harness.Process { return harness.FirstFrozen(h.members...) }, func(frozenProcess *harness.Process) {
			frozenProcess.Kill()
			m := slices.Index(h.members, frozenProcess)
			h.members[m] = h.addMember(chaos...)
			h.members[m].AwaitReady()
		})
	}
	r := h.parts.AwaitPhase(id, "finished")
	require.Equal(t, api.Result("success"), r.Result, harness.Describe(r))
	require.Contains(t, h.parts.Logs(id, "check"), "noise: OK\nmore: OK\n"+strconv.Itoa(size)+"\n")
	h.requireOnce()
	h.requireClean()
}
