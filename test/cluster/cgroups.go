package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const cgroupRoot = "/sys/fs/cgroup"

// hierarchies returns the roots of the control groups: one root in version 2,
// one for each controller in version 1.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		return []string{cgroupRoot}, nil
	}
	entries, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return nil, err
	}
	var roots []string
	for _, entry := range entries {
		// Links such as cpu,cpuacct point to a directory that is listed as
		// well.
		if entry.IsDir() {
			roots = append(roots, filepath.Join(cgroupRoot, entry.Name()))
		}
	}
	return roots, nil
}

// createCGroup creates the group for all pods of the kubelet.
func createCGroup(name string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// removeCGroup removes the group and all groups below it. Its processes are
// dead, but the kernel may take a moment to remove them from the groups.
func removeCGroup(name string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	var fault error
	deadline := time.Now().Add(10 * time.Second)
	for _, root := range roots {
		for {
			err := removeTree(filepath.Join(root, name))
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				fault = errors.Join(fault, err)
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return fault
}

// removeTree removes directories from the leaves up; the kernel removes the
// files in them.
func removeTree(top string) error {
	var dirs []string
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if entry.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	slices.Reverse(dirs)
	for _, dir := range dirs {
		if removed := os.Remove(dir); removed != nil && !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	return err
}
