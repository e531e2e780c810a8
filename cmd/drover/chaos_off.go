//go:build !chaos || !linux

package main

import "github.com/drover-run/drover/run"

// failpoint returns nil: only a build with the tag chaos has failpoints.
func failpoint() func(point string, key run.Key) { return nil }
