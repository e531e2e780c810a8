// Package process is a fleeting plugin whose instances are processes of this
// host. What there is stands in the state dir alone, and every instance has a
// keeper, a process of its own: the plugin may be killed at any time, and
// another goes on with the same instances.
//
// An instance is a directory STATE_DIR/GROUP/ID with these files, of which each
// is written by one side only, and once:
//
//	instance.json  by the plugin, before anything is started
//	lock           locked by the keeper for as long as it lives; holds its pid
//	started.json   by the keeper, when the command has been started
//	address        by the command, if it likes
//	stop           by the plugin: the instance is to end
//	ended.json     by the keeper, or by whoever holds the lock after a keeper that was killed
//	log            what the command writes
package process
