package runs

import (
	"testing"
	"testing/synctest"
	"time"

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

func TestStore_turn_ends_after_a_pause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Store{turn: make(chan struct{}, 1)}
		for range 3 {
			begun := time.Now()
			s.turn <- struct{}{}
			require.NoError(t, s.inTurn(func() error {
				time.Sleep(20 * time.Millisecond) //nolint:forbidigo // virtual time
				return nil
			}))
			require.Equal(t, 20*time.Millisecond, time.Since(begun), "the caller does not wait")
			s.turn <- struct{}{}
			require.Equal(t, 40*time.Millisecond, time.Since(begun))
			<-s.turn
		}
	})
}
