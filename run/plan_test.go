package run_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

func TestSplitPlan(t *testing.T) {
	t.Parallel()
	names := make([]string, 3000)
	wideNode := run.Node{Name: "wide", First: 3000, Width: 3000, Axes: []run.Axis{{Name: "A"}, {Name: "B", Values: []string{"1"}}}}
	join := run.Node{Name: "join", First: 6000, Width: 1, Skip: true, Approvers: 2}
	p := run.Plan{Priority: 1, Group: "/a/b", Name: "n", Pools: []string{"a", "b"}, FailFast: true}
	for i := range names {
		p.Nodes = append(p.Nodes, run.Node{Name: fmt.Sprintf("task-%d", i), First: i, Width: 1})
		wideNode.Axes[0].Values = append(wideNode.Axes[0].Values, fmt.Sprint(i))
		join.Depends = append(join.Depends, run.Edge{Node: i})
	}
	p.Nodes = append(p.Nodes, wideNode, join)
	for _, size := range []int{1 << 10, 8 << 10, run.MaxPlanPage} {
		pages := run.SplitPlan(p, size)
		require.Greater(t, len(pages), 1)
		for i, page := range pages {
			b, err := json.Marshal(page)
			require.NoError(t, err)
			require.LessOrEqual(t, len(b), size)
			require.NotEmpty(t, page.Nodes)
			require.Equal(t, i == 0, page.Name != "", "the first has the header")
			require.NoError(t, json.Unmarshal(b, &pages[i]))
		}
		require.Empty(t, cmp.Diff(p, run.MergePlans(pages), cmpopts.EquateEmpty()))
	}
	require.Len(t, run.SplitPlan(run.Plan{Name: "n"}, 1000), 1, "a plan without tasks has a page too")
	require.Zero(t, run.MergePlans(nil))
}
