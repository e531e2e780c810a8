//go:build unix

package main

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/shim"
	"github.com/drover-run/drover/run"
)

func TestSignals(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args   []string
		signal syscall.Signal
		want   run.Status
	}{
		"SIGTERM is a stop":              {[]string{"run"}, syscall.SIGTERM, run.StatusStopped},
		"SIGINT is a stop":               {[]string{"run"}, syscall.SIGINT, run.StatusStopped},
		"SIGUSR1 is a stop":              {[]string{"run"}, syscall.SIGUSR1, run.StatusStopped},
		"SIGUSR1 is a stop on a host":    {[]string{"run", "--host"}, syscall.SIGUSR1, run.StatusStopped},
		"SIGTERM on a host is external":  {[]string{"run", "--host"}, syscall.SIGTERM, run.StatusFailed},
		"SIGHUP and SIGPIPE are ignored": {[]string{"run"}, syscall.SIGHUP, run.StatusSuccess},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, order(t, nil, "echo begun; sleep 2"), nil, tt.args...)
			p.await(run.FrameOutput)
			require.NoError(t, p.cmd.Process.Signal(tt.signal))
			if tt.want == run.StatusSuccess {
				require.NoError(t, p.cmd.Process.Signal(syscall.SIGPIPE))
			}
			r := p.await(run.FrameTaskEnd).Result
			require.Equal(t, tt.want, r.Status, r.Reason)
			if tt.want == run.StatusFailed {
				require.Equal(t, run.CauseVanished, r.Cause)
				require.Contains(t, r.Reason, "outside")
			}
			require.Equal(t, shim.ExitDone, p.exit())
		})
	}
}
