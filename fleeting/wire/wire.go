// Package wire is the protocol between a host and a fleeting plugin, generated
// from instance_group.proto.
package wire

//go:generate go run ./generate instance_group.proto
