// Package run is the domain of Drover: runs and their tasks, how a
// specification is validated and expanded, when a task may start, and the names
// of phases, results and errors.
//
// It does no I/O and imports the standard library alone, so every other package may
// depend on it. docs/architecture.md describes the terms and semantics.
package run
