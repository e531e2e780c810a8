package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// tunables returns machine-wide kernel settings that a kubelet requires. The
// kubelet sees files with these values, and the machine's settings stay
// unchanged. Using the names of Kubernetes would require its internal packages.
func tunables() map[string]string {
	return map[string]string{
		"/proc/sys/vm/overcommit_memory":      "1",
		"/proc/sys/vm/panic_on_oom":           "0",
		"/proc/sys/kernel/panic":              "10",
		"/proc/sys/kernel/panic_on_oops":      "1",
		"/proc/sys/kernel/keys/root_maxkeys":  "1000000",
		"/proc/sys/kernel/keys/root_maxbytes": "25000000",
	}
}

// setUpMounts mounts what the node needs in this process's mount namespace:
// the fixed state directories of Kubernetes and containerd, and the /proc of
// the new process namespace.
func setUpMounts(l layout) error {
	// Nothing mounted here may reach the host; volumes are propagated to pods.
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return err
	}
	if err := mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	if err := mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	for from, to := range map[string]string{l.lib(): "/var/lib", l.varLog(): "/var/log"} {
		if err := mount(from, to, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	shown := "/run/tunables"
	if err := os.Mkdir(shown, 0o700); err != nil {
		return err
	}
	for path, value := range tunables() {
		file := filepath.Join(shown, filepath.Base(path))
		if err := os.WriteFile(file, []byte(value), 0o600); err != nil {
			return err
		}
		if _, err := os.Stat(path); err != nil {
			continue // the kernel does not have this setting
		}
		if err := mount(file, path, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

func mount(from, to, kind string, flags uintptr, data string) error {
	if err := unix.Mount(from, to, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s: %w", to, err)
	}
	return nil
}
