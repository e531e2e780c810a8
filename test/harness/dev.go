package harness

import (
	"path/filepath"
	"testing"
)

// Dev is a `drover dev` on a data dir, which it may be started on again.
type Dev struct {
	*Process
	*Client
	Dir  string
	env  []string
	args []string
	t    testing.TB
}

// StartDev starts `drover dev` with the shell executor on free ports and waits
// until it is ready.
func StartDev(t testing.TB, env []string, args ...string) *Dev {
	t.Helper()
	d := &Dev{Dir: t.TempDir(), env: env, args: args, t: t}
	d.Restart()
	return d
}

// Restart starts it (again) on the same data dir.
func (d *Dev) Restart() {
	d.t.Helper()
	args := append([]string{
		"dev", "--data-dir", filepath.Join(d.Dir, "data"),
		"--http", "127.0.0.1:0", "--temporal", "127.0.0.1:0", "--temporal-ui", "",
	}, d.args...)
	d.Process = Start(d.t, d.Dir, d.env, args...)
	d.AwaitReady()
	d.Client = ContextClient(d.t, d.Dir)
}
