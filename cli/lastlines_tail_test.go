package cli

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/cli/session"
)

// silent is a gateway that does not answer.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestPrintLastLines_of_a_silent_gateway checks how long the command waits, and that the
// user can interrupt it.
func TestPrintLastLines_of_a_silent_gateway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, err := remote.New(remote.Options{Server: "http://127.0.0.1:1", Transport: silent{}})
		require.NoError(t, err)
		r := api.Run{ID: "r", Phase: api.PhaseFinished, Result: api.ResultFailed, Tasks: map[string]api.Task{"a": {Status: api.StatusFailed, Executor: "host-7", Attempt: 1}}}
		var out strings.Builder
		f := &runsFlags{env: session.Env{Stdout: &out}}

		began := time.Now()
		require.NoError(t, f.printLastLines(t.Context(), client, r))
		require.Equal(t, lastLinesTimeout, time.Since(began))

		interrupted := errors.New("interrupted")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(interrupted)
		require.ErrorIs(t, f.printLastLines(ctx, client, r), interrupted)
		require.Empty(t, out.String())
	})
}

// TestTailOf checks where the end of a log is cut off.
func TestTailOf(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		log  string
		want []string
	}{
		"a last line without a line break":               {"a\nb", []string{"a", "b"}},
		"the whole line at which it is cut":              {"x\n" + strings.Repeat("y", 4_091) + "\nend\n", []string{strings.Repeat("y", 4_091), "end"}},
		"no part of a line before":                       {"x" + strings.Repeat("y", 4_090) + "\nend\n\n\n", []string{"end"}},
		"the end of a line that is too long, and ends":   {strings.Repeat("x", 5_000) + "\n\n", []string{strings.Repeat("x", 4_094)}},
		"no part of a character that is cut off":         {strings.Repeat("é", 2_500) + "x", []string{strings.Repeat("é", 2_047) + "x"}},
		"no part of a longer character that is cut off":  {strings.Repeat("😀", 1_500) + "x", []string{strings.Repeat("😀", 1_023) + "x"}},
		"bytes that are no text":                         {strings.Repeat("\x80", 5_000), []string{strings.Repeat("\uFFFD", 4_093)}},
		"as many bytes as there may be":                  {strings.Repeat("x", 4_096), []string{strings.Repeat("x", 4_096)}},
		"ten lines, if the log has grown meanwhile":      {"a\n" + strings.Repeat("b\n", 11), slices.Repeat([]string{"b"}, 10)},
		"nothing of an empty log":                        {"", []string{}},
		"nothing of one that ends with many blank lines": {"x" + strings.Repeat("\n", 5_000), []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, x.want, tailOf([]byte(x.log[max(0, len(x.log)-maxLastBytes-1):])))
		})
	}
}
