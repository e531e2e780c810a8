// Package run is the domain of Drover: what a run and its tasks are, how a
// specification is checked and expanded, when a task may start, and which
// words name phases, results and faults.
//
// It does no I/O and imports the standard library alone, so that every other
// package may build on it. The words and semantics are described once, in
// docs/architecture.md.
package run
