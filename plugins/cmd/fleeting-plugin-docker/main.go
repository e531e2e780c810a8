// Fleeting-plugin-docker gives containers of a Docker daemon out as instances.
package main

import (
	"gitlab.com/gitlab-org/fleeting/fleeting/plugin"

	"github.com/drover-run/drover/plugins/docker"
)

var version string // set by the linker

func main() {
	v := plugin.VersionInfo{Name: "fleeting-plugin-docker", Version: version}
	plugin.Main(&docker.InstanceGroup{Version: v}, v)
}
