// Package version returns the version of this build.
package version

import "runtime/debug"

// version is set by the linker.
var version string

// String returns the version of this build: the value that the linker set, else
// the version of the module in the build info, else "devel".
func String() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
