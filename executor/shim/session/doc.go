// Package session runs the command of a session in the environment of a running
// task: with the environment variables, the working directory and the user of the
// step that runs, which it takes from the first process of the step. No secret thus
// travels for a session, and none is stored for it.
//
// Serve is a process beside the shim. It runs as long as its stdin is open: if the
// executor is killed, or the connection to the environment breaks, the command and
// all its processes are killed.
package session
