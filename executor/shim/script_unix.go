//go:build unix

package shim

// scriptSuffix returns the ending of a script's name.
func scriptSuffix([]string) string { return ".sh" }
