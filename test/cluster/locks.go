package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// locksDir returns the directory with a lock file for each cluster of this
// machine. The process of the cluster holds the lock. An unlocked file belongs
// to a cluster whose process was killed; the next start removes its remains.
func locksDir() string { return filepath.Join(os.TempDir(), "drover-clusters") }

// clusterLock is the lock file of a cluster. It records what to remove if the cluster
// is killed.
type clusterLock struct {
	layout layout
	file   *os.File
}

func newLayout(bin, dir string) (layout, error) {
	network, err := freeNetwork()
	if err != nil {
		return layout{}, err
	}
	l := layout{Bin: bin, Network: network}
	l.CGroup = "drover-cluster-" + l.id()
	if dir == "" {
		dir = filepath.Join(os.TempDir(), l.CGroup)
	}
	if l.Dir, err = filepath.Abs(dir); err != nil {
		return layout{}, err
	}
	for _, reserved := range []string{"/run/", "/var/lib/", "/var/log/", "/proc/"} {
		if strings.HasPrefix(l.Dir+"/", reserved) || strings.HasPrefix(l.Bin+"/", reserved) {
			return layout{}, fmt.Errorf("the cluster's files cannot be below %s, which the cluster mounts itself", reserved)
		}
	}
	if _, err := os.Lstat(l.Dir); err == nil {
		return layout{}, fmt.Errorf("%s exists", l.Dir)
	}
	return l, nil
}

func newClusterLock(l layout) (*clusterLock, error) {
	if err := os.MkdirAll(locksDir(), 0o700); err != nil {
		return nil, err
	}
	content, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	file, err := lockFile(filepath.Join(locksDir(), l.id()))
	if err != nil {
		return nil, err
	}
	if _, err := file.Write(content); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &clusterLock{layout: l, file: file}, nil
}

// remove removes the remains of the cluster, and the lock file.
func (m *clusterLock) remove() error {
	err := errors.Join(removeCGroup(m.layout.CGroup), os.RemoveAll(m.layout.Dir))
	if err == nil {
		err = os.Remove(m.file.Name())
	}
	return errors.Join(err, m.file.Close())
}

// removeStale removes the remains of clusters whose process was killed.
func removeStale(log *slog.Logger) {
	locks, err := filepath.Glob(filepath.Join(locksDir(), "*"))
	if err != nil {
		return
	}
	for _, path := range locks {
		if err := removeStaleCluster(path); err != nil {
			log.Warn("failed to clean up after a killed cluster", "mark", path, "error", err)
		}
	}
}

func removeStaleCluster(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return file.Close() // the cluster is running
	}
	m := &clusterLock{file: file}
	if err := json.NewDecoder(file).Decode(&m.layout); err != nil || m.layout.CGroup == "" || m.layout.Dir == "" {
		return errors.Join(err, os.Remove(path), file.Close())
	}
	return m.remove()
}

// lockFile creates and locks a file. The lock is released when the file is
// closed or this process ends.
func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
	}
	return file, nil
}
