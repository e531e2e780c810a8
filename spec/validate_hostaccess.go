package spec

import (
	"slices"

	"github.com/drover-run/drover/run"
)

// checkOfHost checks a path or a device of the host, or a pattern of them.
func checkOfHost(l *faultList, at run.Path, text string, check func(string) error) {
	checkText(l, at, text)
	if len(text) > run.MaxHostPath {
		l.add(at, run.FaultOverLimit, "the path has %d bytes; the limit is %d", len(text), run.MaxHostPath)
		return
	}
	if err := check(text); err != nil {
		l.add(at, run.FaultBadFormat, "%s", err)
	}
}

// checkUntrustedHosts refuses paths and devices of the host in an untrusted run.
func checkUntrustedHosts(l *faultList, s *run.Spec) {
	if !s.Untrusted {
		return
	}
	for name, t := range sorted(l, s.Tasks) {
		if t == nil {
			continue
		}
		path := run.Path("tasks").Key(name)
		for i, v := range items(l, t.Volumes) {
			if v.HostPath != "" {
				l.add(path.Key("volumes").Index(i).Key("host_path"), run.FaultContradiction, run.UntrustedHostReason)
			}
		}
		if len(t.Devices) > 0 {
			l.add(path.Key("devices"), run.FaultContradiction, run.UntrustedHostReason)
		}
	}
}

// checkDevices checks the devices of the host that a task has.
func checkDevices(l *faultList, p run.Path, devices []string) {
	if len(devices) > run.MaxDevices {
		l.add(p, run.FaultOverLimit, "there are %d devices; the limit is %d", len(devices), run.MaxDevices)
	}
	for i, device := range items(l, devices) {
		at := p.Index(i)
		checkOfHost(l, at, device, run.CheckDevice)
		if slices.Contains(devices[:i], device) {
			l.add(at, run.FaultDuplicate, "the device is in the list twice")
		}
	}
}

// checkHostAccess checks the paths and devices of their hosts that tasks of a pool may have.
func checkHostAccess(l *faultList, p run.Pool) {
	const paths, devices = run.Path("allowed_host_paths"), run.Path("allowed_devices")
	checkPatterns(l, paths, p, "paths of hosts", p.AllowedHostPaths, run.CheckHostPathPattern)
	checkPatterns(l, devices, p, "devices of hosts", p.AllowedDevices, run.CheckDevicePattern)
	if len(p.AllowedHostPaths) > run.MaxPoolHostPaths {
		return
	}
	for i := range items(l, p.AllowedHostPaths) {
		if inner, found := run.InnerHostPath(p.AllowedHostPaths, i); found {
			l.add(paths.Index(i), run.FaultContradiction,
				"the pattern %s may allow a path below it: a task could replace that by a link; remove one of them, or allow them in pools on different hosts", quote(inner))
		}
	}
}

func checkPatterns(l *faultList, path run.Path, p run.Pool, things string, patterns []string, check func(string) error) {
	if p.Driver != run.DriverDocker && len(patterns) > 0 {
		l.add(path, run.FaultContradiction, "%s are for pools on %s", things, run.DriverDocker)
	}
	if len(patterns) > run.MaxPoolHostPaths {
		l.add(path, run.FaultOverLimit, "there are %d patterns; the limit is %d", len(patterns), run.MaxPoolHostPaths)
	}
	for i, pattern := range items(l, patterns) {
		checkOfHost(l, path.Index(i), pattern, check)
	}
}

// checkHostResources reports the paths and devices of a task that its pool does not allow.
func checkHostResources(l *faultList, path run.Path, t *run.TaskSpec, p *run.Pool) {
	refuse := func(at run.Path, thing, name, key string, patterns []string) {
		allowed := "it has no " + key
		switch {
		case p.Driver == run.DriverKubernetes:
			allowed = podHostHint(key == "allowed_devices")
		case len(patterns) > 0:
			allowed = "its " + key + " are " + someOf(patterns)
		}
		l.add(at, run.FaultPoolMismatch, "pool %s does not allow the %s %s; %s", p.Name, thing, quote(name), allowed)
	}
	for i, v := range t.Volumes {
		if v.HostPath != "" && !p.Lacks(run.FeatureHostPaths) && !p.AllowsHostPath(v.HostPath) {
			refuse(path.Key("volumes").Index(i).Key("host_path"), "host path", v.HostPath, "allowed_host_paths", p.AllowedHostPaths)
		}
	}
	for i, device := range t.Devices {
		if !p.Lacks(run.FeatureDevices) && !p.AllowsDevice(device) {
			refuse(path.Key("devices").Index(i), "device", device, "allowed_devices", p.AllowedDevices)
		}
	}
}

// podHostHint says what pods can have instead of paths and devices of the host.
func podHostHint(devices bool) string {
	if devices {
		return "a pod gets devices of its node from a device plugin, with the pod_template of the pool; or name a pool on " + run.DriverDocker
	}
	return "the pod_template of the pool can mount a path of the nodes, or name a pool on " + run.DriverDocker
}

// checkCheckoutPlaces refuses checkouts that would remove what is at a path of the host.
func checkCheckoutPlaces(l *faultList, task run.Path, t *run.TaskSpec) {
	for i, step := range items(l, t.Steps) {
		if step.Checkout == nil {
			continue
		}
		dir := run.CheckoutDir(t.WorkingDir, step.WorkingDir, step.Checkout.Path)
		if target := run.HostPathOf(t.Volumes, dir); target != "" {
			l.add(task.Key("steps").Index(i).Key("checkout"), run.FaultContradiction,
				"it would remove what is at the path of the host that is mounted at %s: check out elsewhere, and copy", quote(target))
		}
	}
}
