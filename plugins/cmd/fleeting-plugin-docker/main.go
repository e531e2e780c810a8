// Fleeting-plugin-docker is a fleeting plugin whose instances are containers of
// a Docker daemon.
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
