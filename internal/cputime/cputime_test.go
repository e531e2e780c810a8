package cputime

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// costs returns the costs of successive calls. The last one repeats.
func costs(list ...time.Duration) func() time.Duration {
	return func() time.Duration {
		next := list[0]
		if len(list) > 1 {
			list = list[1:]
		}
		return next
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	const second = time.Second
	for name, tt := range map[string]struct {
		reference, do func() time.Duration
		want          bool
	}{
		"linear":                  {costs(second), costs(8 * second), true},
		"quadratic":               {costs(second), costs(64 * second), false},
		"too short to measure":    {costs(1), costs(64), true},
		"quadratic, unmeasurable": {costs(1), costs(second), false},
		"another load at first":   {costs(second), costs(90*second, 90*second, 8*second), true},
		"a load on the reference": {costs(9*second, second), costs(64 * second), true},
		"always loaded":           {costs(second), costs(90*second, 80*second, 70*second, 66*second, 64*second), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, ok := compare(growth, tt.reference, tt.do)
			require.Equal(t, tt.want, ok)
		})
	}
}
