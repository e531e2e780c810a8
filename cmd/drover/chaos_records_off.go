//go:build !chaos

package main

import "github.com/drover-run/drover/records"

// interfereWithRecords returns what it is given: only a build with the tag
// chaos lets tests interfere.
func interfereWithRecords(s records.Store) records.Store { return s }
