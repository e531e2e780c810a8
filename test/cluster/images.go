package main

import (
	"context"
	"fmt"
	"os/exec"

	"golang.org/x/sys/unix"
)

// snapshotterFor names the way in which containerd lays images in layers:
// overlays, except where dir lies on an overlay itself, as in a container.
func snapshotterFor(dir string) (string, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return "", fmt.Errorf("looking at the file system of %s: %w", dir, err)
	}
	if int64(fs.Type) == unix.OVERLAYFS_SUPER_MAGIC {
		return "native", nil
	}
	return "overlayfs", nil
}

// importImages imports archives, as `docker save` writes them, into the
// containerd of the node whose first process is node.
func importImages(ctx context.Context, node int, archives []string) error {
	socket := fmt.Sprintf("/proc/%d/root%s", node, containerdSocket)
	for _, archive := range archives {
		cmd := exec.CommandContext(ctx, "ctr", "--address", socket, "--namespace", "k8s.io", "images", "import", archive) //nolint:gosec // archives that the caller names
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("importing %s: %w: %s", archive, err, out)
		}
	}
	return nil
}
