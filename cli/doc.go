// Package cli is the command line of Drover's clients. It speaks HTTP to a
// gateway, and knows nothing of how runs are executed.
package cli
