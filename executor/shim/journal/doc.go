// Package journal writes and reads the journal of a shim: one run.Frame a line, as
// JSON. A Writer writes it, and a copy of it to standard output. Drivers read it
// through Tail, ReadLines and Scan; a Watcher notifies them of new lines.
package journal
