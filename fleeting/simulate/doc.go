// Package simulate replays a trace of arrivals against the rules of a fleet:
// the decisions are those of fleeting/scaling, only machines and tasks are
// made up. It tells what people waited, and what machines cost.
//
// Time jumps from event to event, so a day takes a moment. The same trace,
// settings and seed give the same result.
package simulate
