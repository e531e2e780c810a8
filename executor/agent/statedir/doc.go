// Package statedir keeps the state dir of an executor on a host: the executor's id, the
// lock that one process holds, the fingerprint by which a copy is detected, and the
// journal with one file a key.
package statedir
