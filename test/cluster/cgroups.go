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

// hierarchies returns the roots of the control groups: one with version 2,
// with version 1 one of each controller.
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
		// Links such as cpu,cpuacct lead to a directory that is there as well.
		if entry.IsDir() {
			roots = append(roots, filepath.Join(cgroupRoot, entry.Name()))
		}
	}
	return roots, nil
}

// makeCGroup makes the group under which the kubelet puts all pods.
func makeCGroup(name string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // as the kernel makes them
			return err
		}
	}
	return nil
}

// removeCGroup removes the group and all below it. The processes in it are
// dead, but the kernel may take a moment to leave the groups.
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

// removeTree removes directories from the leaves on: the files in them are the
// kernel's and go with them.
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
