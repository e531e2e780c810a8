package run

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	// MaxHostPath is how many bytes a path or a device of the host, or a pattern of them, has at
	// most.
	MaxHostPath = 1024
	// MaxDevices is how many devices a task may have.
	MaxDevices = 50
	// MaxPoolHostPaths is how many patterns of host paths, and of devices, a pool may have.
	MaxPoolHostPaths = 50

	anyElement = "*"
	deviceRoot = "/dev/"
)

// namedTrees returns the directories whose content decides about the whole host: no pattern with a
// wildcard allows a path there.
func namedTrees() []string {
	return []string{
		"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/root", "/run", "/sbin", "/sys", "/usr",
		"/var/lib", "/var/run", "/var/snap", "/var/spool",
	}
}

// deviceOptions matches the targets and permissions that docker has after a device.
var deviceOptions = regexp.MustCompile(`:/|:[rwm]{1,3}$`)

// CheckHostPath returns an error if a text cannot be the path of a host in a volume: it is
// absolute, below /, and as short as it can be written.
func CheckHostPath(p string) error {
	if strings.Contains(p, anyElement) {
		return fmt.Errorf("%.100q has a *: write the path of one file or directory", p)
	}
	return checkCleanPath(p)
}

func checkCleanPath(p string) error {
	switch {
	case len(p) > MaxHostPath:
		return fmt.Errorf("%.100q has %d bytes; the limit is %d", p, len(p), MaxHostPath)
	case !path.IsAbs(p):
		return fmt.Errorf("%.100q is not an absolute path", p)
	case slices.Contains(strings.Split(p, "/"), ".."):
		return fmt.Errorf("%.100q has an element \"..\": write the path without it", p)
	case path.Clean(p) == "/":
		return errors.New("the root directory of the host cannot be mounted")
	case path.Clean(p) != p:
		return fmt.Errorf("%.100q is to be written as %q", p, path.Clean(p))
	}
	return nil
}

// CheckHostPathPattern returns an error if a text cannot be a pattern of host paths. In a
// pattern, * stands for one element.
func CheckHostPathPattern(pattern string) error {
	if err := checkCleanPath(pattern); err != nil {
		return err
	}
	if !strings.Contains(pattern, anyElement) {
		return nil
	}
	elements := strings.Split(pattern, "/")[1:]
	for _, e := range elements {
		if e != anyElement && strings.Contains(e, anyElement) {
			return fmt.Errorf("%q has a part of an element in place of a whole one: * stands for one element, as in /srv/*/cache", e)
		}
	}
	if elements[0] == anyElement {
		return errors.New("the first element cannot be *: that would allow directories of the system")
	}
	for _, tree := range namedTrees() {
		if overlap(elements, strings.Split(tree, "/")[1:]) {
			return fmt.Errorf("* cannot stand for paths at or below %s: name each path", tree)
		}
	}
	return nil
}

// overlap reports whether a pattern may match a path at, below or above another one.
func overlap(a, b []string) bool {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] && a[i] != anyElement && b[i] != anyElement {
			return false
		}
	}
	return true
}

// InnerHostPath returns the first of the patterns that may match a path below one that the
// pattern with index i matches. A task that may write to the outer one could put a link in
// the place of the inner one.
func InnerHostPath(patterns []string, i int) (inner string, found bool) {
	outer := strings.Split(patterns[i], "/")
	for _, p := range patterns {
		if e := strings.Split(p, "/"); len(e) > len(outer) && overlap(e, outer) {
			return p, true
		}
	}
	return "", false
}

// NamedHostPath reports whether only patterns without a wildcard can allow a host path.
func NamedHostPath(p string) bool {
	return slices.ContainsFunc(namedTrees(), func(tree string) bool { return p == tree || strings.HasPrefix(p, tree+"/") })
}

// AllowsHostPath reports whether tasks of the pool may mount a path of their host.
func (p *Pool) AllowsHostPath(hostPath string) bool {
	if CheckHostPath(hostPath) != nil {
		return false
	}
	elements := strings.Split(hostPath, "/")
	return slices.ContainsFunc(p.AllowedHostPaths, func(pattern string) bool {
		allowed := strings.Split(pattern, "/")
		return CheckHostPathPattern(pattern) == nil && len(allowed) == len(elements) && overlap(allowed, elements)
	})
}

// CheckDevice returns an error if a text cannot be the path of a device.
func CheckDevice(p string) error {
	if strings.Contains(p, anyElement) {
		return fmt.Errorf("%.100q has a *: write the path of one device", p)
	}
	return checkDevicePath(p)
}

func checkDevicePath(p string) error {
	if deviceOptions.MatchString(p) {
		return fmt.Errorf("%.100q is not the path of a device alone: a task has it at the same path, and may read, write and create it", p)
	}
	if err := checkCleanPath(p); err != nil {
		return err
	}
	if !strings.HasPrefix(p, deviceRoot) {
		return fmt.Errorf("%.100q is not a path below /dev", p)
	}
	return nil
}

// CheckDevicePattern returns an error if a text cannot be a pattern of devices. In a pattern,
// * stands for the rest of the last element.
func CheckDevicePattern(pattern string) error {
	if err := checkDevicePath(pattern); err != nil {
		return err
	}
	prefix, wildcard := strings.CutSuffix(pattern, anyElement)
	switch {
	case strings.Contains(prefix, anyElement):
		return fmt.Errorf("%.100q has * before its end: it stands for the rest of the last element, as in /dev/ttyUSB*", pattern)
	case wildcard && prefix == deviceRoot:
		return errors.New("/dev/* would allow all devices of the host: begin their names, as in /dev/ttyUSB*")
	}
	return nil
}

// AllowsDevice reports whether tasks of the pool may have a device of their host.
func (p *Pool) AllowsDevice(device string) bool {
	return CheckDevice(device) == nil && slices.ContainsFunc(p.AllowedDevices, func(pattern string) bool {
		prefix, wildcard := strings.CutSuffix(pattern, anyElement)
		if !wildcard {
			return pattern == device
		}
		rest, found := strings.CutPrefix(device, prefix)
		return found && !strings.Contains(rest, "/") && CheckDevicePattern(pattern) == nil
	})
}

// HostPaths reports whether the task mounts paths of its host.
func HostPaths(volumes []Volume) bool {
	return slices.ContainsFunc(volumes, func(v Volume) bool { return v.HostPath != "" })
}

// CheckoutDir returns the directory into which a step checks out, which is not absolute if
// the working directory of the task is not known.
func CheckoutDir(taskDir, stepDir, checkoutPath string) string {
	if !path.IsAbs(stepDir) {
		stepDir = path.Join(taskDir, stepDir)
	}
	return path.Join(stepDir, checkoutPath)
}

// HostPathOf returns where a path of the host is mounted at or below a directory, or above it; "" if
// none is.
func HostPathOf(volumes []Volume, dir string) string {
	for _, v := range volumes {
		target := path.Clean(v.Path)
		if v.HostPath != "" && path.IsAbs(dir) && (strings.HasPrefix(dir+"/", target+"/") || strings.HasPrefix(target+"/", strings.TrimSuffix(dir, "/")+"/")) {
			return target
		}
	}
	return ""
}
