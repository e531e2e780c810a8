package scaling_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drover-run/drover/fleeting/scaling"
)

func TestWeightOfMemory(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	require.Equal(t, scaling.Weight(1000), scaling.WeightOfMemory(gib))
	require.Equal(t, scaling.Weight(32000), scaling.WeightOfMemory(16*gib), "16^1.25 is 32")
	require.InDelta(t, 13.454, scaling.WeightOfMemory(8*gib).Units(), 1e-9)
	require.Equal(t, scaling.Weight(1), scaling.WeightOfMemory(0), "no memory has the minimum weight")
}

func TestAllot(t *testing.T) {
	t.Parallel()
	small := func(have, want int) scaling.Claim {
		return scaling.Claim{Fleet: "small", Weight: 1000, Instances: have, Desired: want}
	}
	large := func(have, want int) scaling.Claim {
		return scaling.Claim{Fleet: "large", Weight: 4000, Instances: have, Desired: want}
	}
	tests := []struct {
		name   string
		claims []scaling.Claim
		want   []int
	}{
		{"enough for both", []scaling.Claim{small(0, 2), large(0, 2)}, []int{2, 2}},
		{"by weight and not by number", []scaling.Claim{small(0, 100), large(0, 100)}, []int{4, 1}},
		{"capacity is reserved for a large one", []scaling.Claim{small(8, 100), large(0, 1)}, []int{8, 0}},
		{"idle instances yield", []scaling.Claim{small(8, 3), large(0, 1)}, []int{3, 0}},
		{"idle instances stay without other demand", []scaling.Claim{small(8, 3), large(0, 0)}, []int{8, 0}},
		{"the quota was lowered", []scaling.Claim{small(8, 8), large(2, 2)}, []int{6, 1}},
		{"an instance that can never fit starves no fleet", []scaling.Claim{small(0, 3), {Fleet: "huge", Weight: 11000, Desired: 1}}, []int{3, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, scaling.Allot(10000, tt.claims))
		})
	}
}

// TestAllot_properties checks that the quota is kept, that no fleet gets more
// than it needs, and that repeated allotment reaches a stable state.
func TestAllot_properties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := scaling.Weight(rapid.IntRange(0, 50_000).Draw(t, "limit"))
		var claims []scaling.Claim
		for i := range rapid.IntRange(1, 5).Draw(t, "fleets") {
			claims = append(claims, scaling.Claim{
				Fleet: string(rune('a' + i)), Weight: scaling.Weight(rapid.IntRange(500, 8000).Draw(t, "weight")), Desired: rapid.IntRange(0, 20).Draw(t, "wanted"),
			})
		}
		sum := func() (w scaling.Weight) {
			for _, c := range claims {
				w += c.Weight * scaling.Weight(c.Instances)
			}
			return w
		}
		for range 20 {
			quiet := true
			for i, share := range scaling.Allot(limit, claims) {
				require.LessOrEqual(t, share, max(claims[i].Desired, claims[i].Instances))
				quiet = quiet && share == claims[i].Instances
				claims[i].Instances = share // as if carried out at once
			}
			require.LessOrEqual(t, sum(), limit)
			if quiet {
				return
			}
		}
		t.Fatal("the allotment does not reach a stable state")
	})
}
