// Package docker runs tasks in containers of a Docker daemon.
//
// # What a task is
//
// A task is one main container, "drover-<key>", whose first process is the
// shim, and one container for each of its services, "drover-<key>.service<n>",
// which share the main container's network namespace: they answer on localhost
// and under their names. All are found again by name and label (drover.key,
// .run, .task, .executor, .role), so the driver keeps nothing that must outlive
// its process, and any client of the daemon can see what belongs to whom.
//
// The shim lies on a volume that all tasks share read-only,
// "drover-shim-<digest>"; its journal lies on an anonymous volume of the main
// container. The definition, with its secrets, goes over the container's stdin
// and is nowhere to be inspected. Secrets that are files lie on a tmpfs of the main
// container, which goes when it ends.
//
// # At most once
//
// Steps run at most once because the shim runs nothing where a journal exists,
// and the journal lies with the one container that has the key's name.
// Whatever a container is found in, it may be started again as long as it is
// the same one, or is made anew if it was never started:
//
//	created     made anew, once nobody can be about to start it
//	running     waited for until it begins or gives up; killed if it does neither
//	ended       started again if there is no journal; else only read
//
// Whoever attaches to a container that has ended, and is gone before it runs,
// has closed its stdin for the time that it runs next: its order does not reach
// the shim, and it is started once more.
//
// # Frames
//
// Frames come over the attached stdout, which costs nothing while a task is
// silent. The journal is read, by the shim in a running container or through
// the archive API, where an iteration begins in the middle, across gaps, after
// the end, and when the journal has more than what came.
//
// # What stops a task
//
// SIGTERM to the main container is the wish of the executor alone. Whatever
// else ends containers ("docker stop", a daemon that shuts down) sends the
// container's own stop signal, which is SIGKILL: such a task did not end, it
// was killed from outside, and is told so. With live-restore a daemon may be
// restarted without its tasks noticing.
//
// # Limits
//
// A limit on processes counts threads, and the shim's too: the driver adds 32
// to it. A limit on memory includes the shim's few megabytes, and swap. Limits
// hold for the main container, not for services. A tmpfs may be written by
// everyone and run from. Copying does not reach into a tmpfs.
//
// # Services
//
// A service whose image names TCP ports is waited for until it listens on one
// of them, at most 30 seconds; any other must live for a quarter of a second.
// One that ends meanwhile fails the start, with its last lines in the setup's
// log.
package docker
