package process

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// FindShim returns the path of drover-shim: the configured path, the directory of
// this binary, or the PATH, in this order.
func FindShim(configured string) (string, error) {
	if configured != "" {
		return filepath.Abs(configured)
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "drover-shim")
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	found, err := exec.LookPath("drover-shim")
	if err != nil {
		return "", errors.New("drover-shim is neither beside this program nor in the PATH; build it (make build) or set executor.shim_path")
	}
	return filepath.Abs(found)
}
