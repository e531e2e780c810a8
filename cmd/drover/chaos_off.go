//go:build !chaos || !linux

package main

import "github.com/drover-run/drover/run"

// interfere is nil: only a build with the tag chaos lets tests interfere.
func interfere() func(point string, key run.Key) { return nil }
