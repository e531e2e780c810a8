// Package version tells which build this is.
package version

import "runtime/debug"

// version is set by the linker.
var version string

// String returns the version of this build: what the linker was told, else
// what the Go command knows of the module, else "devel".
func String() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
