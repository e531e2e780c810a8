//go:build unix

package process

// ScriptSuffix returns the ending of a script's name.
func ScriptSuffix([]string) string { return ".sh" }
