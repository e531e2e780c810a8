// Faulty is a fleeting plugin for tests. Its cloud is a directory
// (fleeting/fleetingtest/cloud). It reproduces the faults of real cloud plugins
// that the test configures.
package main

import (
	"os"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
)

func main() {
	log := hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: os.Stderr, JSONFormat: true})
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: plugin.HandshakeConfig{
			MagicCookieKey: "FLEETING_INSTANCE_GROUP_PLUGIN", MagicCookieValue: "4c6410b1-cb78-4962-8c76-ab936d0ea908",
		},
		VersionedPlugins: map[int]plugin.PluginSet{0: {"instancegroup": &group{log: log, calls: map[string]int{}}}},
		GRPCServer:       plugin.DefaultGRPCServer,
		Logger:           log,
	})
}
