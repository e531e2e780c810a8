// Package bootstrap turns an instance of a fleet into an executor: it connects
// over SSH, uploads the worker for the host, gives the host its own
// configuration and credential, starts the worker as a service, and waits until
// it has registered.
//
// Every step is idempotent: after an interruption, the same call is repeated
// and continues with the existing files. Uploaded files are identified by their
// digest. No secret is ever in an argument of a command.
package bootstrap
