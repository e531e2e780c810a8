package harness

import (
	"path/filepath"
	"testing"
)

// Dev is a `drover dev` with a data dir. It can be restarted on that data dir.
type Dev struct {
	*Process
	*Client
	Dir  string
	data string
	host []string // a command that runs drover, if any
	env  []string
	args []string
	t    testing.TB
}

// StartDev starts `drover dev` with the shell executor on free ports and waits
// until it is ready.
func StartDev(t testing.TB, env []string, args ...string) *Dev {
	t.Helper()
	dir := t.TempDir()
	d := &Dev{Dir: dir, data: filepath.Join(dir, "data"), env: env, args: args, t: t}
	d.Restart()
	return d
}

// StartDevOnHost does what StartDev does, with a data dir that the caller
// chooses. A kill also ends the environments of its tasks, as when a host loses
// power.
func StartDevOnHost(t testing.TB, data string, env []string, args ...string) *Dev {
	t.Helper()
	d := &Dev{Dir: t.TempDir(), data: data, host: HostCommand(), env: env, args: args, t: t}
	d.Restart()
	return d
}

// Restart starts drover, again or for the first time, on the same data dir.
func (d *Dev) Restart() {
	d.t.Helper()
	args := append([]string{
		"dev", "--data-dir", d.data,
		"--http", "127.0.0.1:0", "--temporal", "127.0.0.1:0", "--temporal-ui", "",
	}, d.args...)
	d.Process = StartUnder(d.t, d.host, d.Dir, d.env, args...)
	d.AwaitReady()
	d.Client = ContextClient(d.t, d.Dir)
}
