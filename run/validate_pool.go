package run

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
)

// Limits of a pool.
const (
	MaxPoolLabels     = 100
	MaxPoolBytes      = 64 << 10 // of its pod settings, as JSON
	MaxLabelBytes     = 1 << 10  // of a label's value
	maxTolerations    = 100
	maxPullSecrets    = 100
	effectPreferNo    = "PreferNoSchedule"
	effectNo          = "NoSchedule"
	effectNoExecute   = "NoExecute"
	tolerationEqual   = "Equal"
	tolerationExists  = "Exists"
	kubernetesMaxName = 253
)

// ValidatePool returns the faults of a pool that a client submits.
func ValidatePool(p Pool) []Fault {
	l := newFaultList()
	if !ValidName(p.Name) {
		l.add("name", FaultBadFormat, "%s is not a name: 1 to %d of a to z, 0 to 9, dot, underscore and dash", brief(p.Name), MaxNameLength)
	}
	switch {
	case p.Driver == "":
		l.add("driver", FaultRequired, "a pool has a driver, such as %s, %s or %s", DriverShell, DriverDocker, DriverKubernetes)
	case !ValidName(p.Driver):
		l.add("driver", FaultBadFormat, "%s is not the name of a driver", brief(p.Driver))
	}
	for _, word := range []struct {
		path  Path
		value string
	}{{"os", p.OS}, {"arch", p.Arch}} {
		if word.value != "" && !ValidName(word.value) {
			l.add(word.path, FaultBadFormat, "%s is not a word such as linux or amd64", brief(word.value))
		}
	}
	if p.Shared && p.Driver == DriverShell {
		l.add("shared", FaultContradiction, "shared isolates the images of runs; driver %s has no images, and its tasks share the files of the host", DriverShell)
	}
	checkLabels(l, "labels", p.Labels)
	checkFlavor(l, p.Flavor)
	if p.Kubernetes != nil {
		checkKubernetes(l, p)
	}
	return l.faults
}

func checkLabels(l *faultList, path Path, labels map[string]string) {
	if len(labels) > MaxPoolLabels {
		l.add(path, FaultOverLimit, "there are %d; the limit is %d", len(labels), MaxPoolLabels)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		at := path.Key(key)
		if key == "" || len(key) > MaxLabelBytes || len(labels[key]) > MaxLabelBytes {
			l.add(at, FaultOverLimit, "a label has a name, and its name and value have at most %d bytes", MaxLabelBytes)
		}
		checkText(l, at, key)
		checkText(l, at, labels[key])
	}
}

func checkFlavor(l *faultList, f Flavor) {
	path := Path("flavor")
	if f.Name != "" && !ValidName(f.Name) {
		l.add(path.Key("name"), FaultBadFormat, "%s is not a name: 1 to %d of a to z, 0 to 9, dot, underscore and dash", brief(f.Name), MaxNameLength)
	}
	if f.Memory != "" {
		if _, err := ParseMemory(f.Memory); err != nil {
			l.add(path.Key("memory"), FaultBadFormat, "%s", err.Error())
		}
	}
	if f.Weight < 0 || math.IsNaN(f.Weight) || math.IsInf(f.Weight, 0) {
		l.add(path.Key("weight"), FaultOutOfRange, "a weight is above 0")
	}
}

// checkKubernetes checks what can be checked without a cluster; the cluster
// reports other faults, in the reasons of the tasks.
func checkKubernetes(l *faultList, p Pool) {
	path, k := Path("kubernetes"), p.Kubernetes
	if p.Driver != "" && p.Driver != DriverKubernetes {
		l.add(path, FaultContradiction, "the driver is %s, which makes no pods", brief(p.Driver))
	}
	if text, err := json.Marshal(k); err != nil || len(text) > MaxPoolBytes {
		l.add(path, FaultOverLimit, "it has more than %d bytes, or is not JSON", MaxPoolBytes)
		return
	}
	checkLabels(l, path.Key("node_selector"), k.NodeSelector)
	checkLabels(l, path.Key("labels"), k.Labels)
	checkLabels(l, path.Key("annotations"), k.Annotations)
	for field, name := range map[string]string{
		"service_account": k.ServiceAccount, "runtime_class": k.RuntimeClass, "priority_class": k.PriorityClass,
	} {
		if name != "" && !objectName(name) {
			l.add(path.Key(field), FaultBadFormat, "%s is not the name of an object", brief(name))
		}
	}
	if len(k.ImagePullSecrets) > maxPullSecrets || len(k.Tolerations) > maxTolerations {
		l.add(path, FaultOverLimit, "there are at most %d image_pull_secrets and %d tolerations", maxPullSecrets, maxTolerations)
		return
	}
	for i, name := range k.ImagePullSecrets {
		if !objectName(name) {
			l.add(path.Key("image_pull_secrets").Index(i), FaultBadFormat, "%s is not the name of a secret", brief(name))
		}
	}
	for i, t := range k.Tolerations {
		at := path.Key("tolerations").Index(i)
		checkEnum(l, at.Key("operator"), t.Operator, "", tolerationEqual, tolerationExists)
		checkEnum(l, at.Key("effect"), t.Effect, "", effectNo, effectPreferNo, effectNoExecute)
		if t.Key == "" && t.Operator != tolerationExists {
			l.add(at.Key("key"), FaultRequired, "without a key the operator is Exists")
		}
		if t.Seconds != nil && t.Effect != effectNoExecute {
			l.add(at.Key("seconds"), FaultContradiction, "seconds are for the effect NoExecute")
		}
	}
	checkObject(l, path.Key("affinity"), k.Affinity)
	checkObject(l, path.Key("pod_template"), k.PodTemplate)
}

func checkObject(l *faultList, path Path, raw json.RawMessage) {
	if len(raw) == 0 {
		return
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		l.add(path, FaultBadFormat, "it is not an object")
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
