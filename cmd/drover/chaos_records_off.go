//go:build !chaos

package main

import "github.com/drover-run/drover/records"

// interfereWithRecords returns s: only a build with the tag chaos has failpoints.
func interfereWithRecords(s records.Store) records.Store { return s }
