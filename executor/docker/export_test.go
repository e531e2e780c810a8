package docker

import "time"

// SetSilence makes the driver compare silent streams with the journal sooner.
func (d *Driver) SetSilence(after time.Duration) { d.silence = after }

// SetSetupPatience makes the driver take the makers of other setup containers
// for dead sooner.
func (d *Driver) SetSetupPatience(patience time.Duration) { d.setupPatience = patience }
