package access

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway/openapi"
)

var update = flag.Bool("update", false, "write the table of operations of the web UI")

// TestRules_web: the web UI decides by the rules of the gateway, and by the scopes of the
// contract, which actions it offers.
func TestRules_web(t *testing.T) {
	t.Parallel()
	ops, err := openapi.Read(api.Document())
	require.NoError(t, err)
	places := map[resource]string{ofAll: "all", ofCaller: "caller", ofRun: "run", ofSchedule: "schedule", ofFleet: "fleet", ofSome: "some"}
	rules := rules()
	var lines []string
	for _, id := range slices.Sorted(maps.Keys(ops)) {
		if r, known := rules[id]; known && ops[id].Scope != "" {
			lines = append(lines, fmt.Sprintf("  %q: {%q: %q, %q: %q, %q: %q}", id, "scope", ops[id].Scope, "need", r.need, "of", places[r.of]))
		}
	}
	table := "{\n" + strings.Join(lines, ",\n") + "\n}\n"
	const file = "../../web/src/lib/operations.json"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(table), 0o600))
	}
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, table, string(got), "make generate writes it")
}
