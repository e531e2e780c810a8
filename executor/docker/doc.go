// Package docker runs tasks in containers of a Docker daemon.
//
// # Containers of a task
//
// A task has one main container, "drover-<key>", whose first process is the
// shim, and one container for each of its services, "drover-<key>.service<n>".
// The services share the main container's network namespace: they answer on
// localhost and under their names. If the services have a network of their own,
// the main container and they are on a bridge network "drover-<key>.<nonce>",
// whose DNS has their names. The network is created before the containers and
// removed after them. The driver finds all of them again by
// name and label (drover.key, .run, .task, .executor, .role). It therefore
// keeps no state that must outlive its process, and any client of the daemon
// can see which executor and task a container belongs to.
//
// The shim is on a volume that all tasks share read-only,
// "drover-shim-<digest>". Its journal is on an anonymous volume of the main
// container. The definition, with its secrets, goes over the container's stdin,
// so "docker inspect" never shows it. Secret files are on a tmpfs of the main
// container, which disappears when the container ends.
//
// # Persistent volumes
//
// A volume with a name is "drover-volume-<hash>", of the executor, the scope and the name. It
// has the label drover.volume, and none of a task: nothing removes it with the task. What an
// earlier task left in it must not direct a later one's mounts, so a container is looked at
// once it is created and refused if a mount is below such a volume, or behind a link of the
// image.
//
// # At most once
//
// Steps run at most once because the shim runs nothing if a journal exists, and
// the journal is on a volume of the one container that has the key's name. The
// driver starts every container once:
//
//	created     recreated, once no process can be about to start it
//	running     waited for until it begins or gives up; killed if it does neither
//	ended       recreated if there is no journal; else only read
//
// A journal in a container that was never started, or in which the shim has found it, is not of
// the shim: an image or a volume has brought it. It is never read as a result.
//
// A process that is only slow finds that its container is gone: it cannot take one
// that another process has created for its own, and remove it.
//
// # Frames
//
// Frames come over the attached stdout, which costs nothing while a task is
// silent. The driver reads the journal, by the shim in a running container or
// through the archive API, in four cases: an iteration begins in the middle,
// frames have a gap, the container has ended, or the journal is larger than the
// frames that came.
//
// # Stop signals
//
// Only the executor sends SIGTERM to the main container, and it requests the
// stop of the task. Every other stop of a container ("docker stop", a daemon
// that shuts down) sends the container's own stop signal, which is SIGKILL. The
// driver reports such a task as killed from outside. With live-restore a daemon
// may be restarted without affecting its tasks.
//
// # Limits
//
// A limit on processes counts threads, also those of the shim, so the driver
// adds 64 to it. A limit on memory includes the shim's few megabytes, and swap.
// Limits apply to the main container, not to services. Every user may write to
// a tmpfs and run programs from it. Copying does not reach into a tmpfs.
//
// # Services
//
// The driver waits up to 30 seconds until a service whose image exposes TCP
// ports listens on one of them. Any other service must run for a quarter of a
// second. A service that ends meanwhile fails the start, with its last lines in
// the setup log.
package docker
