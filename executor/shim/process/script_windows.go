package process

import (
	"path/filepath"
	"strings"
)

// ScriptSuffix returns the extension of a script, by which the shells of Windows
// detect its type.
func ScriptSuffix(shell []string) string {
	switch strings.TrimSuffix(strings.ToLower(filepath.Base(shell[0])), ".exe") {
	case "cmd":
		return ".cmd"
	case "powershell", "pwsh":
		return ".ps1"
	}
	return ".sh"
}
