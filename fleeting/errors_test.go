package fleeting_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/drover-run/drover/fleeting"
)

func TestCallError(t *testing.T) {
	t.Parallel()
	const mismatch = "json: cannot unmarshal number into Go struct field Group.dir of type string"
	for _, x := range []struct {
		err     fleeting.CallError
		want    string
		refuses bool
	}{
		{fleeting.CallError{Call: "Init", Code: codes.Unknown, Message: mismatch}, "the plugin refuses its configuration: dir: a number where a string is expected", true},
		{fleeting.CallError{Call: "Init", Code: codes.Unknown, Message: "bad token"}, "Init: plugin error: bad token", false},
		{fleeting.CallError{Call: "Init", Code: codes.Internal, Message: "bad token"}, "Init: plugin error: bad token (Internal)", false},
		{fleeting.CallError{Call: "Update", Code: codes.Unknown, Message: mismatch}, "Update: plugin error: " + mismatch, false},
	} {
		require.EqualError(t, &x.err, x.want)
		require.Equal(t, x.refuses, x.err.RefusesConfig(), x.want)
	}
}
