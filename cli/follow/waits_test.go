package follow

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

func TestModel_waits(t *testing.T) {
	t.Parallel()
	m := &model{}
	add := func(name, reason string, status run.Status) {
		m.tasks = append(m.tasks, &task{name: name, reason: reason, status: status})
	}
	add("alone", "no executor of pool mac is online", run.StatusQueued)
	for position := 12; position > 7; position-- {
		add(fmt.Sprintf("t%d", position), fmt.Sprintf("all 4 slots of pool p are in use; position %d in queue, about %ds", position, position), run.StatusQueued)
	}
	add("running", "", run.StatusRunning)
	add("last", "all 2 slots of pool q are in use; position 1 in queue", run.StatusQueued)
	groups := m.waits()
	require.Len(t, groups, 3)
	require.Len(t, groups[0].names, 5)
	require.Equal(t, "all 4 slots of pool p are in use; the next one: position 8 in queue, about 8s", groups[0].reason())
	require.Equal(t, "all 2 slots of pool q are in use; position 1 in queue", groups[1].reason())
	require.Equal(t, "no executor of pool mac is online", groups[2].reason())
}
