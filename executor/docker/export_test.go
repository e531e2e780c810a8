package docker

import (
	"context"
	"time"

	"github.com/docker/docker/client"
	"github.com/moby/sys/mountinfo"
)

// CheckHostPath returns why tasks may not mount a path of the host.
func CheckHostPath(o *Options, dataRoot, p string) error { return checkHostPath(o, dataRoot, p) }

// Overlap reports whether two paths lead to the same files.
func Overlap(mounts []*mountinfo.Info, a, b string) (bool, error) { return overlap(mounts, a, b) }

// DataRoot returns the directory of the daemon's data.
func DataRoot(ctx context.Context, c *client.Client) (string, error) {
	var d daemonData
	return d.of(ctx, c)
}

// SetSilence makes the driver compare silent streams with the journal sooner.
func (d *Driver) SetSilence(after time.Duration) { d.silence = after }

// SetServiceWatch makes the driver watch services longer, as a busy host needs.
func (d *Driver) SetServiceWatch(watch time.Duration) { d.serviceWatch = watch }

// SetSetupTimeout sets how soon the driver assumes that the creators of other
// setup containers are dead.
func (d *Driver) SetSetupTimeout(timeout time.Duration) { d.setupTimeout = timeout }
