//go:build !chaos || !linux

package main

import "github.com/drover-run/drover/run"

// interfere returns nil: only a build with the tag chaos has failpoints.
func interfere() func(point string, key run.Key) { return nil }
