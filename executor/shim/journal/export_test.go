package journal

import "time"

// NewNotifiedWatcher returns a Watcher whose followers depend on its notifications: they
// do not poll while a test waits.
func NewNotifiedWatcher() *Watcher { return &Watcher{fallback: time.Hour} }
