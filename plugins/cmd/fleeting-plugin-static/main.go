// Fleeting-plugin-static is a fleeting plugin whose instances are the hosts of
// a list.
package main

import (
	"gitlab.com/gitlab-org/fleeting/fleeting/plugin"

	"github.com/drover-run/drover/plugins/static"
)

var version string // set by the linker

func main() {
	v := plugin.VersionInfo{Name: "fleeting-plugin-static", Version: version}
	plugin.Main(&static.InstanceGroup{Version: v}, v)
}
