package docker

import "time"

// SetSilence makes the driver compare silent streams with the journal sooner.
func (d *Driver) SetSilence(after time.Duration) { d.silence = after }
