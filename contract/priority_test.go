package contract_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/drover-run/drover/contract"
)

func TestPriority(t *testing.T) {
	t.Parallel()
	require.Equal(t, temporal.Priority{PriorityKey: 2, FairnessKey: "/project/42"}, contract.Priority(2, "/project/42/branch/main"))
	require.Equal(t, "/project/42", contract.Priority(2, "/project/42").FairnessKey)
	long := "/" + strings.Repeat("ä", 40) + "/"
	one, two := contract.Priority(3, long+"1/x").FairnessKey, contract.Priority(3, long+"2/x").FairnessKey
	require.LessOrEqual(t, len(one), 64)
	require.True(t, utf8.ValidString(one))
	require.NotEqual(t, one, two, "different roots have different keys")
	require.Equal(t, one, contract.Priority(3, long+"1/y").FairnessKey)
}
