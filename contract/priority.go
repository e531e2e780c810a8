package contract

import (
	"hash/fnv"
	"strconv"
	"strings"

	"go.temporal.io/sdk/temporal"

	"github.com/drover-run/drover/internal/truncate"
)

// maxFairnessKey is the longest fairness key that the server accepts, in bytes.
const maxFairnessKey = 64

// Priority is the Temporal priority of a run's workflows and tasks: the
// priority of the run, with fairness between group roots, the first two
// elements of a group.
func Priority(priority int, group string) temporal.Priority {
	return temporal.Priority{PriorityKey: priority, FairnessKey: fairnessKey(group)}
}

// fairnessKey returns the group's root, shortened to a prefix and a hash if it
// is too long for the server.
func fairnessKey(group string) string {
	root := group
	if parts := strings.SplitN(group, "/", 4); len(parts) == 4 {
		root = strings.Join(parts[:3], "/")
	}
	if len(root) <= maxFairnessKey {
		return root
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(root))
	sum := strconv.FormatUint(h.Sum64(), 36)
	return truncate.String(root, maxFairnessKey, "."+sum)
}
