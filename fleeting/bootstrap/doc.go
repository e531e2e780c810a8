// Package bootstrap makes an instance of a fleet an executor: it connects over
// SSH, uploads the worker that matches the host, gives it a configuration and a
// credential of its own, starts it as a service, and waits until it registered.
//
// Every step can be repeated: a call that was cut off anywhere is made again and
// goes on from what is there. What is uploaded is told by its digest; nothing
// secret is ever in an argument of a command.
package bootstrap
