// Package scaling decides how many machines a fleet has. Its input is
// instances, demand, rules and time; its output is actions with their reasons.
// It has no clock and no state, does no I/O, and computes with integers, so
// that a workflow gets the same result on every machine and in every replay.
//
// Compile turns the settings of a fleet into Rules, and reports all faults of
// the settings. Rules.At returns the Terms at a time. That result depends on
// the time zone database of the machine, so a workflow records it. Decide makes
// the decision. Allot divides a quota among fleets.
package scaling
