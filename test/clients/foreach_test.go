package clients

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/test/harness"
)

// TestForeach expands a list that a task outputs into one task for each item,
// and runs a task after all of them. They are more tasks than one workflow holds.
func TestForeach(t *testing.T) {
	t.Parallel()
	items := 300
	if harness.Soak() {
		items = 5000
	}
	dir := t.TempDir()
	dev := harness.StartDev(t, []string{"DROVER_DEV__SLOTS=16"}, "--executor", "shell")
	client := harness.NewClient(t, dev.Server, dev.Token)
	r := client.Submit(fmt.Sprintf(`
name: list
group: /test/foreach
environment: {DIR: %q}
tasks:
  plan: {steps: [{run: 'echo "items=[$(seq -s, 1 %d)]" >> "$DROVER_OUTPUT"'}]}
  each: {depends: [plan], foreach: '{{ output "plan" "items" }}', steps: [{run: 'echo $DROVER_ITEM >> "$DIR/$DROVER_ITEM_INDEX"'}]}
  join: {depends: [each], steps: [{run: 'ls "$DIR" | wc -l; cat "$DIR"/* | wc -l'}]}
`, dir, items))
	r = client.AwaitPhase(r.ID, api.PhaseFinished)
	require.Equal(t, api.Result("success"), r.Result, r.Reason)
	require.Len(t, r.Tasks, items+3)
	want := fmt.Sprintf("%d\n%d\n", items, items)
	require.Equal(t, want, strings.ReplaceAll(client.Logs(r.ID, "join"), " ", ""))
	require.NoError(t, dev.Stop())
}
