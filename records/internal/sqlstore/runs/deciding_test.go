package runs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/spec/condition"
)

func TestDeciding_compiles_each_text_once(t *testing.T) {
	t.Parallel()
	w := &deciding{limit: quickCost, compiles: make(map[conditionText]*compiledCondition)}
	of := conditionText{`env.STAGE == "test"`, condition.ScopeTask}
	c, cost := w.compiled(of, 0)
	require.NotNil(t, c.condition)
	require.Positive(t, cost)
	again, cost := w.compiled(of, w.limit)
	require.Same(t, c, again)
	require.Zero(t, cost)

	// What the transaction has no time for is compiled after it.
	late := conditionText{"true", condition.ScopeTask}
	c, cost = w.compiled(late, w.limit)
	require.Nil(t, c)
	require.Zero(t, cost)
	require.Equal(t, []conditionText{late}, w.missing)
	w.compileMissing()
	c, _ = w.compiled(late, w.limit)
	require.NotNil(t, c.condition)
}
