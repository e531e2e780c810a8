// Package controller manages the machines of fleets. It compares the listing of a
// plugin with the ledger in the records, plans the changes, and carries them
// out. The workflow of a fleet decides which changes are carried out, and in
// which order. The package keeps no state that the ledger does not have.
//
// Three rules hold everywhere. After a change, only the listing of the plugin
// counts; the package ignores the counts that the plugin returns. A machine
// that may hold a task is never deleted: its executor has acknowledged a drain
// first, or was removed. Every row of the ledger states the reason for its
// state.
package controller
