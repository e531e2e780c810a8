// Package cli is the command line of Drover's clients. It uses the HTTP API of a
// gateway, and does not depend on the execution of runs.
package cli
