// Package kubernetes runs tasks in pods of a Kubernetes cluster.
//
// # What a task is
//
// A task is one pod, named by its key, with the container "task", whose first
// process is the shim, and one container for each of its services, which share
// the pod's network: they answer on localhost and under their names. An init
// container of the helper image brings the shim onto a volume that the
// container mounts read-only; the shim's journal lies on another one. Where the
// task has credentials of registries, a secret that the pod owns holds them.
// All is found again by name and label (see the constants Label...), so the
// driver keeps nothing that must outlive its process.
//
// # At most once
//
// A pod's name is unique, its containers are started once (restartPolicy
// Never), and its journal is a volume of its own. The shim waits at a socket
// for its order, which "drover-shim hand", run in the container, takes there
// from its stdin: so the definition, with its secrets, is in no argument, no
// variable and no object of the cluster. Secrets that are files are written by
// the shim onto a volume in memory. The shim takes the first order that is
// whole, begins its journal, says so, and takes no other. Whoever is not sure
// whether an order has arrived hands it over again.
//
// Of what is asked of a pod, only what the shim prints is believed, or an exit
// code that is not 0: a call that is cut on its way may look like one that
// ended with 0.
//
// # Frames
//
// The same call that hands the order over goes on to print the journal as it
// grows; "drover-shim read" does so after a restart. There are no gaps. Where
// nothing happens it prints an empty line now and then, so that a connection
// that is frozen anywhere on its way is noticed; and it ends with its stdin, so
// that a lost connection leaves nothing behind. The container's stdout carries
// a copy of the frames, marked by a word that only this task has, for the time
// when the container has ended and nothing can be run in it any more.
//
// # What ends a task from outside
//
// Pods are evicted, preempted, deleted, and nodes are lost. SIGTERM is then no
// wish of Drover: the shim ends the step, and tells that the task was ended
// from outside; what the pod's status says of the reason is added to it. A node
// that does not answer is no end: its tasks are followed again when it is back,
// and have ended when the cluster has removed their pods.
//
// # Limits
//
// A pod has no limit on processes of its own. Limits hold for the task's
// container, requests equal them, and the memory of the shim and its reader
// counts. Services are unlimited unless the pool's template says otherwise.
package kubernetes
