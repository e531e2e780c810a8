//go:build !chaos || !linux

package executorrole

import "github.com/drover-run/drover/run"

// failpoint returns nil: only a build with the tag chaos has failpoints.
func failpoint() func(point string, key run.Key) { return nil }
