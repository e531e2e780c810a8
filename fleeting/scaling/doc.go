// Package scaling decides how many machines a fleet has: instances, demand,
// rules and time go in, actions with their reasons come out. It has no clock,
// no state and does no I/O, and what it computes with are whole numbers, so
// that a workflow gets the same answer on every machine and in every replay.
//
// Compile makes Rules of the settings of a fleet, and says all that is wrong
// with them. Rules.At gives the Terms of a time: that answer hangs on the time
// zones that the machine knows, so a workflow records it. Decide does the
// rest. Allot shares a quota out among fleets.
package scaling
