// Package process is a fleeting plugin whose instances are processes of this
// host. All state is in the state dir, and every instance has its own
// supervisor process. The plugin may be killed at any time, and another process
// continues with the same instances.
//
// An instance is a directory STATE_DIR/GROUP/ID with these files. Each file is
// written once, by one process:
//
//	instance.json  by the plugin, before it starts anything
//	lock           locked by the supervisor while it runs; contains its pid
//	started.json   by the supervisor, when it has started the command
//	address        by the command (optional)
//	stop           by the plugin: the instance must end
//	ended.json     by the supervisor, or by the holder of the lock if the supervisor was killed
//	log            output of the command
package process
