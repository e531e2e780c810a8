package run

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Volume is a mount in the task's environment. It has Tmpfs, Name or HostPath.
type Volume struct {
	Path  string `json:"path"`
	Tmpfs *Tmpfs `json:"tmpfs,omitempty"`
	// Name makes it a persistent volume, which stays on the host. Later tasks of the same
	// scope (see PersistentVolumeScope) find its content if the same executor runs them.
	Name string `json:"name,omitempty"`
	// HostPath makes it a file or directory of the host.
	HostPath string `json:"host_path,omitempty"`
	// ReadOnly: the task cannot change the persistent volume, or what the host has.
	ReadOnly bool `json:"read_only,omitempty"`
}

// Tmpfs is a file system in memory. An empty size means the driver's default.
type Tmpfs struct {
	Size string `json:"size,omitempty"`
}

const (
	// MaxLastingVolumes is how many persistent volumes and paths of the host a task may mount.
	MaxLastingVolumes = 50
	// MaxVolumePath is how many bytes the path of a volume has at most, in a task with such
	// volumes.
	MaxVolumePath = 512
	// MaxVolumeDepth is how many elements it has at most: drivers look at each of them.
	MaxVolumeDepth = 16
)

// MaxPoolVolumes is how many patterns of volumes a pool may have.
const MaxPoolVolumes = 50

var (
	volumeName = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,62}$`)
	// A name in which * stands for any text.
	volumePattern = regexp.MustCompile(`^[a-z0-9*][a-z0-9_.*-]{0,62}$`)
)

// CheckVolumeName returns an error if a text cannot be the name of a persistent volume.
func CheckVolumeName(name string) error {
	if !volumeName.MatchString(name) {
		return fmt.Errorf("%.100q is not the name of a volume: it has at most 63 characters of a to z, 0 to 9, \"_\", \".\" and \"-\", the first a letter or a digit", name)
	}
	return nil
}

// CheckVolumePattern returns an error if a text cannot be a pattern of names.
func CheckVolumePattern(pattern string) error {
	if !volumePattern.MatchString(pattern) {
		return fmt.Errorf("%.100q is not a pattern of the names of volumes, such as cache or build-*", pattern)
	}
	return nil
}

// AllowsVolume reports whether tasks of the pool may have a persistent volume.
func (p *Pool) AllowsVolume(name string) bool {
	return slices.ContainsFunc(p.AllowedVolumes, func(pattern string) bool {
		matched, err := path.Match(pattern, name)
		return err == nil && matched
	})
}

// PersistentVolumeScope returns the scope of the persistent volumes of trusted runs: those
// of other pools and of other group roots are apart.
func PersistentVolumeScope(pool, group string) string { return pool + " " + GroupRoot(group) }

// UntrustedVolumeScope returns the scope of the persistent volumes of untrusted runs: those
// of exactly one group. No group begins like it, so they never are those of trusted runs.
func UntrustedVolumeScope(pool, group string) string { return pool + " untrusted:" + group }

// volumeScope returns the scope of a task's persistent volumes, "" if it has none.
func volumeScope(header *Spec, t *TaskSpec, pool string) string {
	switch {
	case !PersistentVolumes(t.Volumes):
		return ""
	case header.Untrusted:
		return UntrustedVolumeScope(pool, header.Group)
	}
	return PersistentVolumeScope(pool, header.Group)
}

// CheckVolumePath returns an error if the cleaned path of a volume is too long beside lasting
// volumes.
func CheckVolumePath(dir string) error {
	if depth := strings.Count(dir, "/"); len(dir) > MaxVolumePath || depth > MaxVolumeDepth {
		return fmt.Errorf("the path %.100q of a volume has %d bytes and %d elements; the limits are %d and %d", dir, len(dir), depth, MaxVolumePath, MaxVolumeDepth)
	}
	return nil
}

// CheckVolumePlace returns an error if a lasting volume at a cleaned path would replace or
// change what belongs to the container. What drivers and runtimes mount there would be below
// the volume, where earlier tasks could have left links. gpus is whether the task has GPUs,
// whose runtime mounts libraries and programs.
func CheckVolumePlace(dir string, gpus bool) error {
	for _, of := range []string{"/.drover", "/proc", "/sys", "/dev", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf"} {
		if within(dir, of) {
			return fmt.Errorf("a persistent volume or a path of the host cannot be at %.100q: %s belongs to the container; mount it elsewhere", dir, of)
		}
	}
	for _, of := range []string{"/etc", "/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/run", "/var/run"} {
		if gpus && within(dir, of) {
			return fmt.Errorf("a persistent volume or a path of the host cannot be at %.100q: in a task with gpus, %s belongs to the container, and the runtime mounts files there; mount it elsewhere", dir, of)
		}
	}
	if gpus && (dir == "/tmp" || within(dir, "/tmp/nvidia-mps")) {
		return fmt.Errorf("a persistent volume or a path of the host cannot be at %.100q: in a task with gpus, the runtime mounts directories below /tmp; mount it elsewhere", dir)
	}
	if slices.Contains([]string{"/etc", "/usr", "/usr/lib", "/usr/lib64", "/usr/bin", "/bin", "/sbin", "/lib", "/lib64", "/run", "/var", "/var/run"}, dir) {
		return fmt.Errorf("a persistent volume or a path of the host cannot be at %.100q: it belongs to the container; mount it elsewhere", dir)
	}
	return nil
}

// Lasting reports whether what the task leaves in the volume outlives it: other tasks may have
// left links in it.
func (v Volume) Lasting() bool { return v.Name != "" || v.HostPath != "" }

// LastingVolumes reports whether the task has volumes that outlive it.
func LastingVolumes(volumes []Volume) bool { return slices.ContainsFunc(volumes, Volume.Lasting) }

func within(dir, of string) bool { return strings.HasPrefix(dir+"/", of+"/") }

// PersistentVolumes reports whether the task has persistent volumes.
func PersistentVolumes(volumes []Volume) bool {
	return slices.ContainsFunc(volumes, func(v Volume) bool { return v.Name != "" })
}
