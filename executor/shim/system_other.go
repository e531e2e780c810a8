//go:build !linux

package shim

// BootID returns "": no such thing here.
func BootID() string { return "" }

func oomKills() int { return 0 }
