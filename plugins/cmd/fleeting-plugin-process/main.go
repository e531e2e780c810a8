//go:build linux

// Fleeting-plugin-process is a fleeting plugin whose instances are local
// processes.
package main

import (
	"os"

	"gitlab.com/gitlab-org/fleeting/fleeting/plugin"

	"github.com/drover-run/drover/plugins/process"
)

var version string // set by the linker

func main() {
	if len(os.Args) > 1 && os.Args[1] == process.SupervisorCommand {
		os.Exit(process.Supervise(os.Args[2:], os.Stderr))
	}
	v := plugin.VersionInfo{Name: "fleeting-plugin-process", Version: version}
	plugin.Main(&process.InstanceGroup{Version: v}, v)
}
