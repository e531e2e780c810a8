package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-run/drover/run"
)

// Limits and words of the pod settings of a pool.
const (
	maxTolerations    = 100
	maxPullSecrets    = 100
	maxShownItems     = 10 // of a list in a fault
	effectPreferNo    = "PreferNoSchedule"
	effectNo          = "NoSchedule"
	effectNoExecute   = "NoExecute"
	tolerationEqual   = "Equal"
	tolerationExists  = "Exists"
	kubernetesMaxName = 253
)

// ValidatePool returns the faults of a pool that a client submits.
func ValidatePool(p run.Pool) []run.Fault {
	l := newFaultList()
	if !run.ValidName(p.Name) {
		l.add("name", run.FaultBadFormat, "%s is not a name: 1 to %d of a to z, 0 to 9, dot, underscore and dash", quote(p.Name), run.MaxNameLength)
	}
	switch {
	case p.Driver == "":
		l.add("driver", run.FaultRequired, "a pool has a driver, such as %s, %s or %s", run.DriverShell, run.DriverDocker, run.DriverKubernetes)
	case !run.ValidName(p.Driver):
		l.add("driver", run.FaultBadFormat, "%s is not the name of a driver", quote(p.Driver))
	}
	for _, word := range []struct {
		path  run.Path
		value string
	}{{"os", p.OS}, {"arch", p.Arch}} {
		if word.value != "" && !run.ValidName(word.value) {
			l.add(word.path, run.FaultBadFormat, "%s is not a word such as linux or amd64", quote(word.value))
		}
	}
	if p.Shared && p.Driver == run.DriverShell {
		l.add("shared", run.FaultContradiction, "shared isolates the images of runs; driver %s has no images, and its tasks share the files of the host", run.DriverShell)
	}
	switch p.Exec {
	case "", run.ExecAllowed, run.ExecForbidden:
	default:
		l.add("exec", run.FaultBadFormat, "%s is neither %s nor %s", quote(string(p.Exec)), run.ExecAllowed, run.ExecForbidden)
	}
	if p.MaxRunning < 0 || p.MaxRunning > run.MaxPoolRunning {
		l.add("max_running", run.FaultOutOfRange, "max_running is from 0, which is no limit, to %d", run.MaxPoolRunning)
	}
	checkAllowedGroups(l, p.AllowedGroups)
	checkAllowedImages(l, p)
	checkRewrites(l, p)
	checkPoolRegistries(l, p)
	checkAllowedVolumes(l, p)
	checkHostAccess(l, p)
	checkLabels(l, "labels", p.Labels)
	checkFlavor(l, p.Flavor)
	if p.Kubernetes != nil {
		checkKubernetes(l, p)
	}
	return l.faults
}

// checkAllowedGroups checks the groups that may use a pool or a fleet.
func checkAllowedGroups(l *faultList, patterns []string) {
	const path = run.Path("allowed_groups")
	if len(patterns) > run.MaxPoolGroups {
		l.add(path, run.FaultOverLimit, "there are %d patterns; the limit is %d", len(patterns), run.MaxPoolGroups)
	}
	for i, pattern := range items(l, patterns) {
		if _, err := run.GroupPattern(pattern); err != nil {
			l.add(path.Index(i), run.FaultBadFormat, "%s", err.Error())
		}
	}
}

// checkAllowedImages checks what restricts the images of a pool's tasks.
func checkAllowedImages(l *faultList, p run.Pool) {
	const policies = run.Path("allowed_pull_policies")
	checkHasImages(l, "image", p, len(p.Images.Default))
	if image := p.Images.Default; image != "" && !imagePattern.MatchString(image) {
		l.add("image", run.FaultBadFormat, "%s is not the name of an image such as golang:1.26 or ghcr.io/owner/name:tag", quote(image))
	}
	for _, list := range []struct {
		path     run.Path
		patterns []string
	}{{"allowed_images", p.Images.Allowed}, {"allowed_service_images", p.Images.AllowedServices}} {
		checkHasImages(l, list.path, p, len(list.patterns))
		if len(list.patterns) > run.MaxPoolImages {
			l.add(list.path, run.FaultOverLimit, "there are %d patterns; the limit is %d", len(list.patterns), run.MaxPoolImages)
		}
		for i, pattern := range items(l, list.patterns) {
			if err := run.CheckImagePattern(pattern); err != nil {
				l.add(list.path.Index(i), run.FaultBadFormat, "%s", err.Error())
			}
		}
	}
	checkHasImages(l, policies, p, len(p.Images.PullPolicies))
	for i, policy := range items(l, p.Images.PullPolicies) {
		switch {
		case policy == "":
			l.add(policies.Index(i), run.FaultRequired, "a pull policy is %s, %s or %s", run.PullIfNotPresent, run.PullAlways, run.PullNever)
		case slices.Contains(p.Images.PullPolicies[:i], policy):
			l.add(policies.Index(i), run.FaultDuplicate, "%s is in the list already", quote(string(policy)))
		default:
			checkEnum(l, policies.Index(i), policy, run.PullIfNotPresent, run.PullAlways, run.PullNever)
		}
	}
	if p.Shared && len(p.Images.PullPolicies) > 0 && !slices.Contains(p.Images.PullPolicies, run.PullAlways) {
		l.add(policies, run.FaultContradiction, "a shared pool pulls images always: the list must have %s", run.PullAlways)
	}
}

// checkAllowedVolumes checks the persistent volumes that tasks of a pool may have.
func checkAllowedVolumes(l *faultList, p run.Pool) {
	const path = run.Path("allowed_volumes")
	if p.Driver != run.DriverDocker && len(p.AllowedVolumes) > 0 {
		l.add(path, run.FaultContradiction, "persistent volumes are for pools on %s", run.DriverDocker)
	}
	if len(p.AllowedVolumes) > run.MaxPoolVolumes {
		l.add(path, run.FaultOverLimit, "there are %d patterns; the limit is %d", len(p.AllowedVolumes), run.MaxPoolVolumes)
	}
	for i, pattern := range items(l, p.AllowedVolumes) {
		if err := run.CheckVolumePattern(pattern); err != nil {
			l.add(path.Index(i), run.FaultBadFormat, "%s", err.Error())
		}
	}
}

func checkRewrites(l *faultList, p run.Pool) {
	const path = run.Path("image_rewrites")
	checkHasImages(l, path, p, len(p.Images.Rewrites))
	if len(p.Images.Rewrites) > run.MaxPoolImages {
		l.add(path, run.FaultOverLimit, "there are %d rewrites; the limit is %d", len(p.Images.Rewrites), run.MaxPoolImages)
	}
	for from, to := range sorted(l, p.Images.Rewrites) {
		for _, prefix := range []string{from, to} {
			if err := run.CheckImagePrefix(prefix); err != nil {
				l.add(path.Key(from), run.FaultBadFormat, "%s", err.Error())
			}
		}
	}
}

func checkPoolRegistries(l *faultList, p run.Pool) {
	const path = run.Path("registries")
	checkHasImages(l, path, p, len(p.Images.Registries))
	if len(p.Images.Registries) > run.MaxPoolImages {
		l.add(path, run.FaultOverLimit, "there are %d registries; the limit is %d", len(p.Images.Registries), run.MaxPoolImages)
	}
	for host, r := range sorted(l, p.Images.Registries) {
		at := path.Key(host)
		if strings.Contains(host, "/") || run.CheckImagePrefix(host) != nil {
			l.add(at, run.FaultBadFormat, "%s is not the host of a registry, such as ghcr.io, or docker.io for Docker Hub", quote(host))
		}
		checkUsername(l, at, r.Username)
		checkSecretRef(l, at.Key("password_from"), r.PasswordFrom)
	}
}

func checkHasImages(l *faultList, path run.Path, p run.Pool, length int) {
	if length > 0 && p.Driver == run.DriverShell {
		l.add(path, run.FaultContradiction, "tasks of driver %s have no images", run.DriverShell)
	}
}

func checkLabels(l *faultList, path run.Path, labels map[string]string) {
	if len(labels) > run.MaxPoolLabels {
		l.add(path, run.FaultOverLimit, "there are %d; the limit is %d", len(labels), run.MaxPoolLabels)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		at := path.Key(key)
		if key == "" || len(key) > run.MaxLabelBytes || len(labels[key]) > run.MaxLabelBytes {
			l.add(at, run.FaultOverLimit, "a label has a name, and its name and value have at most %d bytes", run.MaxLabelBytes)
		}
		checkText(l, at, key)
		checkText(l, at, labels[key])
		if run.StatesResources(key) {
			l.add(at, run.FaultContradiction, "this label states what executors offer: use resources")
		}
	}
}

func checkFlavor(l *faultList, f run.Flavor) {
	path := run.Path("flavor")
	if f.Name != "" && !run.ValidName(f.Name) {
		l.add(path.Key("name"), run.FaultBadFormat, "%s is not a name: 1 to %d of a to z, 0 to 9, dot, underscore and dash", quote(f.Name), run.MaxNameLength)
	}
	if f.Memory != "" {
		if _, err := run.ParseMemory(f.Memory); err != nil {
			l.add(path.Key("memory"), run.FaultBadFormat, "%s", err.Error())
		}
	}
	if f.Weight != 0 {
		l.add(path.Key("weight"), run.CodeNotSupported, "it never had an effect and was removed: leave it out; "+
			"the weight of a machine in a quota is a setting of its fleet, and max_running of a pool limits its tasks")
	}
}

// checkKubernetes checks what can be checked without a cluster; the cluster
// reports other faults, in the reasons of the tasks.
func checkKubernetes(l *faultList, p run.Pool) {
	path, k := run.Path("kubernetes"), p.Kubernetes
	if p.Driver != "" && p.Driver != run.DriverKubernetes {
		l.add(path, run.FaultContradiction, "the driver is %s, which makes no pods", quote(p.Driver))
	}
	if text, err := json.Marshal(k); err != nil || len(text) > run.MaxPoolBytes {
		l.add(path, run.FaultOverLimit, "it has more than %d bytes, or is not JSON", run.MaxPoolBytes)
		return
	}
	checkLabels(l, path.Key("node_selector"), k.NodeSelector)
	checkLabels(l, path.Key("labels"), k.Labels)
	checkLabels(l, path.Key("annotations"), k.Annotations)
	for field, name := range map[string]string{
		"service_account": k.ServiceAccount, "runtime_class": k.RuntimeClass, "priority_class": k.PriorityClass,
	} {
		if name != "" && !objectName(name) {
			l.add(path.Key(field), run.FaultBadFormat, "%s is not the name of an object", quote(name))
		}
	}
	if len(k.ImagePullSecrets) > maxPullSecrets || len(k.Tolerations) > maxTolerations {
		l.add(path, run.FaultOverLimit, "there are at most %d image_pull_secrets and %d tolerations", maxPullSecrets, maxTolerations)
		return
	}
	for i, name := range k.ImagePullSecrets {
		if !objectName(name) {
			l.add(path.Key("image_pull_secrets").Index(i), run.FaultBadFormat, "%s is not the name of a secret", quote(name))
		}
	}
	for i, t := range k.Tolerations {
		at := path.Key("tolerations").Index(i)
		checkEnum(l, at.Key("operator"), t.Operator, "", tolerationEqual, tolerationExists)
		checkEnum(l, at.Key("effect"), t.Effect, "", effectNo, effectPreferNo, effectNoExecute)
		if t.Key == "" && t.Operator != tolerationExists {
			l.add(at.Key("key"), run.FaultRequired, "without a key the operator is Exists")
		}
		if t.Seconds != nil && t.Effect != effectNoExecute {
			l.add(at.Key("seconds"), run.FaultContradiction, "seconds are for the effect NoExecute")
		}
	}
	checkObject(l, path.Key("affinity"), k.Affinity)
	checkObject(l, path.Key("pod_template"), k.PodTemplate)
}

func checkObject(l *faultList, path run.Path, raw json.RawMessage) {
	if len(raw) == 0 {
		return
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		l.add(path, run.FaultBadFormat, "it is not an object")
	}
}

// objectName reports whether a text is a valid name for most kinds of
// Kubernetes object.
func objectName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '-' {
			return false
		}
	}
	return name != "" && len(name) <= kubernetesMaxName
}

// CheckPool returns the faults of a task that is to run in a pool.
func CheckPool(name string, t *run.TaskSpec, p run.Pool) []run.Fault {
	l := newFaultList()
	path := run.Path("tasks").Key(name)
	if t.Privileged && !p.Privileged {
		l.add(path.Key("privileged"), run.FaultPoolMismatch, "pool %s does not allow privileged tasks", p.Name)
	}
	for i := range t.Services {
		if t.Services[i].Privileged && !p.Privileged {
			l.add(path.Key("services").Index(i).Key("privileged"), run.FaultPoolMismatch, "pool %s does not allow privileged tasks and services", p.Name)
		}
	}
	checkFeatures(l, path, t, &p)
	if p.Container() {
		if t.Image == "" {
			l.add(path.Key("image"), run.FaultRequired, "pool %s runs tasks in containers (%s): the task needs an image", p.Name, p.Driver)
		}
		checkImages(l, path, t, &p)
		checkPersistentVolumes(l, path, t, &p)
		checkHostResources(l, path, t, &p)
		if t.ServiceNetwork == run.ServiceNetworkOwn && p.Driver == run.DriverKubernetes {
			l.add(path.Key("service_network"), run.FaultPoolMismatch,
				"pool %s runs tasks in pods, whose containers share one network: give the services different ports, or name a pool on %s", p.Name, run.DriverDocker)
		}
		checksOut := slices.ContainsFunc(t.Steps, func(s run.Step) bool { return s.Checkout != nil })
		if checksOut && !t.SharesWorkingDir() && !volumePath(t.WorkingDir) { // else checkTask has checked it
			l.add(path.Key("working_dir"), run.FaultPoolMismatch,
				"%s is not an absolute path below /: pool %s runs checkout steps in containers of their own, which share it as a volume", quote(t.WorkingDir), p.Name)
		}
		return l.faults
	}
	for i := range t.Steps {
		if t.Steps[i].Image != "" {
			l.add(path.Key("steps").Index(i).Key("image"), run.FaultPoolMismatch,
				"pool %s runs tasks on the host itself (%s): its steps have no images", p.Name, p.Driver)
		}
	}
	for _, c := range []struct {
		field string
		given bool
	}{
		{"image", t.Image != ""},
		{"pull_policy", t.PullPolicy != ""},
		{"platform", t.Platform != ""},
		{"services", len(t.Services) > 0},
		{"service_network", t.ServiceNetwork == run.ServiceNetworkOwn},
		{"user", t.User != ""},
		{"resources", t.Resources != run.Resources{} && !p.Offers() || t.Resources.PIDs > 0},
		{"volumes", len(t.Volumes) > 0},
		{"devices", len(t.Devices) > 0},
		{"extra_hosts", len(t.ExtraHosts) > 0},
		{"privileged", t.Privileged && p.Privileged},
	} {
		if c.given {
			l.add(path.Key(c.field), run.FaultPoolMismatch, "pool %s runs tasks on the host itself (%s), which does not support it", p.Name, p.Driver)
		}
	}
	return l.faults
}

// checkImages reports the images and the pull policy of a task that its pool does not allow.
func checkImages(l *faultList, path run.Path, t *run.TaskSpec, p *run.Pool) {
	refuse := func(at run.Path, image, key string, patterns []string) {
		l.add(at, run.FaultPoolMismatch, "pool %s does not allow the image %s; its %s are %s", p.Name, quote(run.FullImage(image)), key, someOf(patterns))
	}
	check := func(at run.Path, image string) {
		if image != "" && !p.Images.Allows(image) {
			refuse(at, image, "allowed_images", p.Images.Allowed)
		}
	}
	check(path.Key("image"), t.Image)
	for i := range t.Steps {
		check(path.Key("steps").Index(i).Key("image"), t.Steps[i].Image)
	}
	services, key := p.Images.Services()
	for i := range t.Services {
		if image := t.Services[i].Image; !run.ImageAllowed(services, image) {
			refuse(path.Key("services").Index(i).Key("image"), image, key, services)
		}
	}
	if policies := p.Images.PullPolicies; t.PullPolicy != "" && p.Images.Policy(t.PullPolicy) != t.PullPolicy {
		l.add(path.Key("pull_policy"), run.FaultPoolMismatch, "pool %s does not allow %s; its allowed_pull_policies are %s", p.Name, t.PullPolicy, someOf(policies))
	}
}

// podVolumesHint says what pods can have instead of persistent volumes.
const podVolumesHint = "mount a claim with the pod_template of the pool, or name a pool on " + run.DriverDocker

// checkPersistentVolumes reports the volumes of a task that its pool does not allow.
func checkPersistentVolumes(l *faultList, path run.Path, t *run.TaskSpec, p *run.Pool) {
	for i, v := range t.Volumes {
		if v.Name == "" || p.Lacks(run.FeatureVolumes) || p.AllowsVolume(v.Name) {
			continue
		}
		allowed := "it has no allowed_volumes"
		switch {
		case p.Driver == run.DriverKubernetes:
			allowed = podVolumesHint
		case len(p.AllowedVolumes) > 0:
			allowed = "its allowed_volumes are " + someOf(p.AllowedVolumes)
		}
		l.add(path.Key("volumes").Index(i).Key("name"), run.FaultPoolMismatch, "pool %s does not allow the volume %s; %s", p.Name, quote(v.Name), allowed)
	}
}

// someOf returns the items of a list as a text, at most maxShownItems of them.
func someOf[T ~string](list []T) string {
	shown := make([]string, 0, maxShownItems)
	for _, item := range list[:min(len(list), maxShownItems)] {
		shown = append(shown, string(item))
	}
	text := strings.Join(shown, ", ")
	if more := len(list) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// checkFeatures reports what a task needs and no executor of its pool can do. What a
// driver never can do is reported by CheckPool.
func checkFeatures(l *faultList, path run.Path, t *run.TaskSpec, p *run.Pool) {
	needs := t.Needs(*p)
	for _, at := range slices.Sorted(maps.Keys(needs)) {
		feature := needs[at]
		if !p.Lacks(feature) {
			continue
		}
		hint := ""
		switch {
		case feature == run.FeatureOwnNetworks && p.Driver == run.DriverDocker:
			hint = ": its executors set executor.docker.network, or have an earlier version"
		case feature == run.FeatureVolumes && p.Driver == run.DriverKubernetes:
			hint = ": " + podVolumesHint
		case (feature == run.FeatureHostPaths || feature == run.FeatureDevices) && p.Driver == run.DriverDocker:
			hint = ": its executors do not set executor.docker.host_access, or have an earlier version"
		case (feature == run.FeatureHostPaths || feature == run.FeatureDevices) && p.Driver == run.DriverKubernetes:
			hint = ": " + podHostHint(feature == run.FeatureDevices)
		case feature == run.FeatureCheckouts && p.Container():
			hint = ": give the step an image with git, or its executors one (executor.checkout_image)"
		case feature == run.FeatureCheckouts:
			hint = ": install git on its hosts"
		}
		l.add(run.Path(string(path)+"."+string(at)), run.FaultPoolMismatch, "no executor of pool %s has the feature %s%s; `drover pools get %s` shows what they have",
			p.Name, feature, hint, p.Name)
	}
}
