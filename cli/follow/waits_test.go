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

func TestModel_waits_for_slots(t *testing.T) {
	t.Parallel()
	m := &model{}
	add := func(name, reason string) {
		m.tasks = append(m.tasks, &task{name: name, reason: reason, status: run.StatusWaitingChangeGroup})
	}
	for position := 12; position > 8; position-- {
		add(fmt.Sprintf("t%d", position), fmt.Sprintf("waits for change group a: position %d in queue, 1 of 1 slots held by x", position))
	}
	both := "change group a: position %d in queue, 1 of 1 slots held by x; change group b: position %d in queue, 2 of 2 slots held by y"
	add("both2", "waits for "+fmt.Sprintf(both, 4, 3))
	add("both1", "waits for "+fmt.Sprintf(both, 3, 2))
	add("soon", "is about to get its slots: its change groups have some free")
	add("alone", "waits for change group b: position 1 in queue, 2 of 2 slots held by y")
	var reasons []string
	for _, g := range m.waits() {
		require.Equal(t, run.StatusWaitingChangeGroup, g.status)
		reasons = append(reasons, fmt.Sprintf("%d: %s", len(g.names), g.reason()))
	}
	require.Equal(t, []string{
		"4: waits for change group a; the next one: position 9 in queue, 1 of 1 slots held by x",
		"2: waits for change group a; change group b; the next one: " + fmt.Sprintf(both, 3, 2),
		"1: is about to get its slots: its change groups have some free",
		"1: waits for change group b: position 1 in queue, 2 of 2 slots held by y",
	}, reasons)
}
