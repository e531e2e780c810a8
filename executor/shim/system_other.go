//go:build !linux

package shim

func bootID() string { return "" }

func oomKills() int { return 0 }
