package run_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

func TestCheckHostPath(t *testing.T) {
	t.Parallel()
	for p, fault := range map[string]string{
		"/srv/mirror": "", "/var/run/docker.sock": "", "/...": "", "/srv/..a/.b": "", "/srv/a b": "",
		"": "not an absolute path", "srv": "not an absolute path", "./srv": "not an absolute path",
		"/": "root directory", "//": "root directory", "/srv/../etc": `".."`, "/..": `".."`,
		"/srv/": `written as "/srv"`, "/srv//a": `written as "/srv/a"`, "/srv/./a": `written as "/srv/a"`, "/srv/*": "has a *",
	} {
		requireFault(t, fault, run.CheckHostPath(p), p)
	}
}

func requireFault(t *testing.T, fault string, err error, text string) {
	t.Helper()
	if fault == "" {
		require.NoError(t, err, text)
		return
	}
	require.ErrorContains(t, err, fault, text)
}

func TestCheckHostPathPattern(t *testing.T) {
	t.Parallel()
	for pattern, fault := range map[string]string{
		"/srv/mirror": "", "/srv/*": "", "/srv/*/cache/*": "", "/run/docker.sock": "", "/etc/ssl/certs": "", "/variable/*": "", "/var/cache/*": "", "/home/*/.m2": "",
		"srv/*": "absolute", "/srv/*/..": `".."`, "/srv/*/": "written as", "/": "root directory",
		"/srv/a*": "a part of an element", "/srv/**": "a part of an element",
		"/*": "first element", "/*/a": "first element",
		"/etc/*": "/etc", "/etc/ssl/*": "/etc", "/proc/*/root": "/proc", "/sys/*": "/sys", "/dev/*": "/dev", "/run/*": "/run", "/run/user/*": "/run",
		"/var/*": "/var/", "/var/*/a": "/var/", "/var/lib/*": "/var/lib", "/var/run/*": "/var/run", "/root/*": "/root", "/usr/*": "/usr", "/usr/local/*": "/usr", "/var/spool/*": "/var/spool", "/srv/" + strings.Repeat("x", run.MaxHostPath): "1029 bytes", "/boot/*": "/boot",
	} {
		requireFault(t, fault, run.CheckHostPathPattern(pattern), pattern)
	}
}

func TestInnerHostPath(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		"/srv/a /srv/b": "", "/srv/a /srv/ab/c": "", "/srv/* /srv/a": "", "/srv/a /srv/a": "", "/srv/*/a /srv/b": "/srv/*/a",
		"/srv /srv/a": "/srv/a", "/srv/a /srv/*/c": "/srv/*/c", "/srv/* /srv/b/c": "/srv/b/c", "/srv/a/* /srv/a": "/srv/a/*",
	} {
		patterns, found := strings.Fields(list), ""
		for i := range patterns {
			if inner, is := run.InnerHostPath(patterns, i); is {
				found = inner
			}
		}
		require.Equal(t, want, found, list)
	}
}

func TestPool_AllowsHostPath(t *testing.T) {
	t.Parallel()
	p := run.Pool{AllowedHostPaths: []string{"/srv/mirror", "/mnt/*/cache", "/etc/*"}} // the last one is not valid
	for hostPath, want := range map[string]bool{
		"/srv/mirror": true, "/mnt/a/cache": true, "/mnt/.a/cache": true,
		"/srv": false, "/srv/mirror/a": false, "/srv/mirrors": false, "/mnt/a": false, "/mnt/a/b/cache": false, "/mnt/a/cache/b": false,
		"/mnt/../cache": false, "/mnt/*/cache": false, "/mnt/a/*": false, "/mnt//cache": false, "/srv/mirror/": false, "/etc/ssl": false, "": false,
	} {
		require.Equal(t, want, p.AllowsHostPath(hostPath), hostPath)
	}
	require.False(t, (&run.Pool{}).AllowsHostPath("/srv/mirror"))
}

func TestNamedHostPath(t *testing.T) {
	t.Parallel()
	for p, want := range map[string]bool{"/run": true, "/run/docker.sock": true, "/var/lib/x": true, "/var": false, "/runner": false, "/srv/docker.sock": false} {
		require.Equal(t, want, run.NamedHostPath(p), p)
	}
}

func TestCheckDevice(t *testing.T) {
	t.Parallel()
	for p, fault := range map[string]string{
		"/dev/kvm": "", "/dev/bus/usb/001/002": "", "/dev/disk/by-path/pci-0000:00:1f.2-ata-1": "",
		"": "absolute", "kvm": "absolute", "/dev": "below /dev", "/dev/": "written as", "/device": "below /dev", "/etc/passwd": "below /dev", "/dev/../etc/passwd": `".."`,
		"/dev/sda:/dev/xvdc": "alone", "/dev/sda:/dev/xvdc:r": "alone", "/dev/kvm:rwm": "alone", "/dev/ttyUSB*": "has a *",
	} {
		requireFault(t, fault, run.CheckDevice(p), p)
	}
}

func TestCheckDevicePattern(t *testing.T) {
	t.Parallel()
	for pattern, fault := range map[string]string{
		"/dev/kvm": "", "/dev/ttyUSB*": "", "/dev/dri/*": "",
		"/dev/*": "all devices", "/dev/*/a": "before its end", "/dev/tty*0": "before its end", "/dev/tty**": "before its end",
		"/srv/*": "below /dev", "/dev/kvm:rwm": "alone", "/dev/../sda": `".."`,
	} {
		requireFault(t, fault, run.CheckDevicePattern(pattern), pattern)
	}
}

func TestPool_AllowsDevice(t *testing.T) {
	t.Parallel()
	p := run.Pool{AllowedDevices: []string{"/dev/kvm", "/dev/ttyUSB*", "/dev/dri/*", "/dev/*"}} // the last one is not valid
	for device, want := range map[string]bool{
		"/dev/kvm": true, "/dev/ttyUSB0": true, "/dev/ttyUSB": true, "/dev/dri/card0": true,
		"/dev/kvm2": false, "/dev/ttyUSB0/a": false, "/dev/dri": false, "/dev/dri/": false, "/dev/dri/../sda": false, "/dev/sda": false, "/dev/ttyUSB*": false, "": false,
	} {
		require.Equal(t, want, p.AllowsDevice(device), device)
	}
}
