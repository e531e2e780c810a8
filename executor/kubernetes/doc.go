// Package kubernetes runs tasks in pods of a Kubernetes cluster.
//
// # The pod of a task
//
// A task has one pod, named by its key. The container "task" runs the shim as
// its first process. Each service has one more container; services share the
// pod's network and answer on localhost and under their names. An init
// container of the helper image installs the shim on a volume that the
// container mounts read-only. The shim's journal is on another volume. If the
// task has registry credentials, a secret owned by the pod holds them. The
// driver finds all objects again by name and label (see the constants
// Label...), so it keeps no state that must outlive its process.
//
// # At most once
//
// A pod's name is unique, its containers are started once (restartPolicy
// Never), and its journal is on a volume of its own. The shim waits at a socket
// for its order. "drover-shim hand", run in the container, reads the order from
// its stdin and sends it to that socket. The definition, with its secrets, is
// therefore in no argument, no environment variable and no object of the
// cluster. The shim writes secret files to a volume in memory. It takes the
// first complete order, begins its journal, confirms that, and takes no other
// order. If a caller is not sure whether an order has arrived, it sends the
// order again.
//
// The driver believes only what the shim prints, or an exit code that is not 0.
// A call whose connection breaks may look like one that ended with 0.
//
// # Frames
//
// The call that sends the order continues and prints the journal as it grows;
// "drover-shim read" does so after a restart. There are no gaps. A silent
// reader prints an empty line now and then, so that a frozen connection is
// noticed. The reader ends with its stdin, so a lost connection leaves no
// process behind. The container's stdout carries a copy of the frames, prefixed
// with a nonce that only this task has. The driver reads the copy when the
// container has ended and no process can run in it any more.
//
// # Disruptions
//
// Pods are evicted, preempted and deleted, and nodes are lost. SIGTERM is then
// not a stop request of Drover: the shim ends the step and reports that the
// task was ended from outside. The driver adds the reason from the pod's
// status. A node that does not answer does not end its tasks. The driver
// follows them again when the node is back. They have ended when the cluster
// has removed their pods.
//
// # Limits
//
// A pod has no limit on processes of its own. Limits apply to the task's
// container and requests equal them. The memory of the shim and its reader
// counts. Services are unlimited unless the pool's template limits them.
package kubernetes
