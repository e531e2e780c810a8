package command

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv/pages"
	"github.com/drover-run/drover/run"
)

// codes reads every error code from the source of package run, so that the test
// covers new ones.
func codes(t *testing.T) []run.Code {
	t.Helper()
	var all []run.Code
	for _, code := range pages.OfType(t, "run/error.go", "Code") {
		all = append(all, run.Code(code))
	}
	require.Greater(t, len(all), 15)
	return all
}

func TestExitOfCode_is_total(t *testing.T) {
	t.Parallel()
	want := map[run.Code]ExitCode{
		"invalid": 2, "unreadable": 2, "too_large": 2, "unsupported_media_type": 2, "not_supported": 2,
		"unauthenticated": 4, "token_expired": 4, "token_revoked": 4, "forbidden": 4, "unavailable": 4, "timeout": 4,
		"not_found": 5, "gone": 5, "conflict": 5, "claimed": 5, "wrong_phase": 5, "not_waiting_approval": 5, "changegroup_conflict": 5,
		"changegroup_busy": 5, "idempotency_mismatch": 5, "exhausted": 5, "canceled": 5, "internal": 5,
	}
	for _, code := range codes(t) {
		require.Contains(t, want, code, "the test must have the exit code")
		require.Equal(t, want[code], ExitOfCode(code), code)
		delete(want, code)
	}
	require.Empty(t, want)
	require.Equal(t, ExitOther, ExitOfCode("of_the_future"))
}

func TestExitOfRun_is_total(t *testing.T) {
	t.Parallel()
	want := map[string]ExitCode{
		"finished success": 0, "finished failed": 1, "finished stopped": 3,
		"cancelled unknown": 3, "setup_error unknown": 1, "setup_error failed": 1,
	}
	for _, phase := range run.Phases() {
		for _, result := range run.Results() {
			code, known := want[fmt.Sprint(phase, " ", result)]
			if known {
				require.Equal(t, code, ExitOfRun(phase, result), "%s %s", phase, result)
			}
			if !phase.Final() {
				require.Equal(t, ExitOther, ExitOfRun(phase, result), "%s %s", phase, result)
			}
		}
	}
}

func TestExitOf(t *testing.T) {
	t.Parallel()
	tests := []struct {
		err  error
		want ExitCode
	}{
		{nil, ExitOK},
		{errors.New("any"), ExitOther},
		{UsageError(errors.New("any")), ExitInvalid},
		{fmt.Errorf("more: %w", UsageError(errors.New("any"))), ExitInvalid},
		{Exit(ExitStopped), ExitStopped},
		{run.Errorf(run.CodeForbidden, "no"), ExitNoAccess},
		{FaultyFile("f", run.InvalidError("faults", nil)), ExitInvalid},
		{errors.Join(run.Errorf(run.CodeNotFound, "no"), run.Errorf(run.CodeForbidden, "no")), ExitOther},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, exitOf(tt.err), "%v", tt.err)
	}
}
