// Package frames sends the frames of a task to the gateway, in batches whose bounds
// stay the same over retries and restarts, and derives the state of the steps from
// the frames.
package frames
