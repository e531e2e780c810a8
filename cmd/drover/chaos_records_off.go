//go:build !chaos

package main

import "github.com/drover-run/drover/records"

// recordsFailpoint returns s: only a build with the tag chaos has failpoints.
func recordsFailpoint(s records.Store) records.Store { return s }
