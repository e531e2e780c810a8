// Package simulate replays a trace of arrivals against the rules of a fleet.
// The decisions come from fleeting/scaling; only machines and tasks are
// simulated. It reports how long tasks waited, and what the machines cost.
//
// Time jumps from event to event, so a day takes a moment. The same trace,
// settings and seed give the same result.
package simulate
