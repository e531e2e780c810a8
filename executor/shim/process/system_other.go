//go:build !linux

package process

// BootID returns "": this system has no boot id.
func BootID() string { return "" }

// OOMKills returns 0: this system has no such count.
func OOMKills() int { return 0 }

// MemoryLimit returns 0: this system has no such limit.
func MemoryLimit() int64 { return 0 }

// exposeToOOM does nothing: this system has no such setting.
func exposeToOOM(int) {}
