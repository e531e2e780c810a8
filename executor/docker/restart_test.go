//go:build linux

package docker_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/docker"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// TestDriver_outlives_the_daemon restarts the daemon while a task runs.
func TestDriver_outlives_the_daemon(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags []string
		lives bool
	}{
		"that stops its containers":         {nil, false},
		"that keeps its containers running": {[]string{"--live-restore"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := testenv.NewDaemon(t, c.flags...)
			cli := d.Client()
			b := &bench{cli: cli, image: testenv.BusyboxImage(t, cli), id: "test"}
			b.driver = b.newDriver(t, docker.Options{Network: "none"})
			def := b.definition(t, "echo begun; while ! [ -f /go ]; do sleep 0.1; done; echo continued")
			h, err := b.driver.Start(t.Context(), executor.Task{Definition: def, Launch: launchAt(1)})
			require.NoError(t, err)

			next, output := int64(1), ""
			for f, err := range h.Events(t.Context(), next) {
				if err != nil {
					require.Equal(t, run.CodeUnavailable, run.CodeOf(err))
					break
				}
				next++
				if output += string(f.Data); output == "begun\n" {
					d.Stop()
				}
			}
			require.Equal(t, "begun\n", output)
			d.Start()
			if c.lives {
				require.NoError(t, h.CopyTo(t.Context(), "/", fileNamed(t, "go")))
				require.Equal(t, "continued\n", follow(t, h, next).output)
			} else {
				err := followToError(t, h)
				require.Equal(t, run.CodeNotFound, run.CodeOf(err))
				require.ErrorContains(t, err, "daemon was restarted")
			}
			require.NoError(t, h.Remove(t.Context()))
			b.requireNothingLeft(t)
		})
	}
}
