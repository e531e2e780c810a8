package docker

import "time"

// SetSilence makes the driver compare silent streams with the journal sooner.
func (d *Driver) SetSilence(after time.Duration) { d.silence = after }

// SetServiceWatch makes the driver watch services longer, as a busy host needs.
func (d *Driver) SetServiceWatch(watch time.Duration) { d.serviceWatch = watch }

// SetSetupPatience makes the driver take the makers of other setup containers
// for dead sooner.
func (d *Driver) SetSetupPatience(patience time.Duration) { d.setupPatience = patience }
