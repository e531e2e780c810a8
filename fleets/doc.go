// Package fleets looks after the machines of fleets: it compares what a plugin
// lists with the ledger in the records, decides what is to be done, and does
// it. What is done, and in which order, is for the workflow of a fleet to say;
// nothing here is remembered that the ledger does not have.
//
// Three rules hold everywhere. The plugin's listing is the only truth after a
// change: counts that it returned are never believed. A machine that may hold a
// task is never deleted: its executor has acknowledged a drain first, or was
// removed. And every row of the ledger says why it is as it is.
package fleets
