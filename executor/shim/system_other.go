//go:build !linux

package shim

// BootID returns "": this system has no boot id.
func BootID() string { return "" }

func oomKills() int { return 0 }
