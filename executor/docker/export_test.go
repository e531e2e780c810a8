package docker

import "time"

// CheckHostPath returns why tasks may not mount a path of the host.
func CheckHostPath(o *Options, dataRoot, p string) error { return checkHostPath(o, dataRoot, p) }

// SetSilence makes the driver compare silent streams with the journal sooner.
func (d *Driver) SetSilence(after time.Duration) { d.silence = after }

// SetServiceWatch makes the driver watch services longer, as a busy host needs.
func (d *Driver) SetServiceWatch(watch time.Duration) { d.serviceWatch = watch }

// SetSetupTimeout sets how soon the driver assumes that the creators of other
// setup containers are dead.
func (d *Driver) SetSetupTimeout(timeout time.Duration) { d.setupTimeout = timeout }
