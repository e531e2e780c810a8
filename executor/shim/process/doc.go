// Package process holds the parts of a shim that depend on the system: the accounts
// and processes of the steps, and the process of the shim itself with its lock,
// state and signals.
package process
