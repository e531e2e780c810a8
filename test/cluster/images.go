package main

import (
	"context"
	"fmt"
	"os/exec"

	"golang.org/x/sys/unix"
)

// snapshotterFor returns containerd's snapshotter: overlayfs, or native if dir
// itself is on an overlay, as in a container.
func snapshotterFor(dir string) (string, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return "", fmt.Errorf("inspect the file system of %s: %w", dir, err)
	}
	if fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return "native", nil
	}
	return "overlayfs", nil
}

// importImages imports archives, as written by `docker save`, into the
// containerd of the node whose first process is node.
func importImages(ctx context.Context, node int, archives []string) error {
	socket := fmt.Sprintf("/proc/%d/root%s", node, containerdSocket)
	for _, archive := range archives {
		cmd := exec.CommandContext(ctx, "ctr", "--address", socket, "--namespace", "k8s.io", "images", "import", archive)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("import %s: %w: %s", archive, err, out)
		}
	}
	return nil
}
