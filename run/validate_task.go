package run

import (
	"path"
	"slices"
	"strings"
)

var (
	imagePattern = newPattern(`^(?:(?:[a-zA-Z0-9.-]+|\[[a-fA-F0-9:]+\])(?::[0-9]+)?/)?` + // registry
		`[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*` + // repository
		`(?::\w[\w.-]{0,127})?(?:@[A-Za-z][A-Za-z0-9+._-]*:[0-9a-fA-F]{32,})?$`) // tag, digest
	platformPattern = newPattern(`^[a-z0-9]+/[a-z0-9_]+(?:/[a-z0-9.]+)?$`)
	userPattern     = newPattern(`^[A-Za-z0-9_][A-Za-z0-9_.-]*(?::[A-Za-z0-9_][A-Za-z0-9_.-]*)?$`)
)

func checkTask(l *faultList, name, group string, t *TaskSpec) {
	p := Path("tasks").Key(name)
	switch {
	case len(name) > MaxNameLength:
		l.add(p, FaultOverLimit, "the name has %d bytes; the limit is %d", len(name), MaxNameLength)
	case !ValidName(name):
		l.add(p, FaultBadFormat, "%s is not the name of a task: a to z, 0 to 9, dot, underscore and dash", brief(name))
	}
	if t == nil {
		l.add(p, FaultRequired, "the task is empty")
		return
	}
	checkPlacement(l, p, t)
	checkContainer(l, p, t)
	checkSteps(l, p.Key("steps"), t.Steps)
	checkArchives(l, p.Key("steps"), group, t.Steps)
	if a := t.Approval.Approvers; a < 0 || a > MaxApprovers {
		l.add(p.Key("approval").Key("approvers"), FaultOutOfRange, "it is %d; it must be 0 to %d", a, MaxApprovers)
	}
	checkTimeout(l, p.Key("timeout"), t.Timeout)
	checkRetry(l, p.Key("retry"), t.Retry)
	checkEnum(l, p.Key("on_executor_lost"), t.OnLost, OnLostFail, OnLostRetry)
}

// checkPlacement checks the fields that decide where the task runs.
func checkPlacement(l *faultList, p Path, t *TaskSpec) {
	checkText(l, p.Key("pool"), t.Pool)
	r := t.Requires
	if r == nil {
		return
	}
	at := p.Key("requires")
	if t.Pool != "" {
		l.add(at, FaultContradiction, "a task names a pool or says what it requires, not both")
	}
	if r.Driver == "" && r.OS == "" && r.Arch == "" && len(r.Labels) == 0 {
		l.add(at, FaultRequired, "nothing is required: set driver, os, arch or labels")
	}
	checkText(l, at.Key("driver"), r.Driver)
	checkText(l, at.Key("os"), r.OS)
	checkText(l, at.Key("arch"), r.Arch)
	for k, v := range sorted(l, r.Labels) {
		checkText(l, at.Key("labels").Key(k), k)
		checkText(l, at.Key("labels").Key(k), v)
	}
}

// checkContainer checks the environment that the steps run in.
func checkContainer(l *faultList, p Path, t *TaskSpec) {
	if t.Image != "" {
		checkImage(l, p.Key("image"), t.Image)
	}
	checkEnum(l, p.Key("pull_policy"), t.PullPolicy, PullIfNotPresent, PullAlways, PullNever)
	if t.Platform != "" && !platformPattern.MatchString(t.Platform) {
		l.add(p.Key("platform"), FaultBadFormat, "%s is not a platform such as linux/amd64", brief(t.Platform))
	}
	checkServices(l, p.Key("services"), t.Services)
	checkEnvironment(l, p.Key("environment"), t.Environment)
	checkText(l, p.Key("working_dir"), t.WorkingDir)
	if t.Shell != nil && (len(t.Shell) == 0 || t.Shell[0] == "") {
		l.add(p.Key("shell"), FaultRequired, "a shell is a list whose first item is a program, such as [/bin/sh, -e]")
	}
	for i, arg := range items(l, t.Shell) {
		checkText(l, p.Key("shell").Index(i), arg)
	}
	if t.User != "" && !userPattern.MatchString(t.User) {
		l.add(p.Key("user"), FaultBadFormat, "%s is not a user such as 1000, app or 1000:1000", brief(t.User))
	}
	checkResources(l, p.Key("resources"), t.Resources)
	checkVolumes(l, p.Key("volumes"), t.Volumes)
}

func checkImage(l *faultList, p Path, image string) {
	if !imagePattern.MatchString(image) {
		l.add(p, FaultBadFormat, "%s is not the name of an image such as golang:1.26 or ghcr.io/owner/name:tag", brief(image))
	}
}

func checkServices(l *faultList, p Path, services []ServiceSpec) {
	seen := make(map[string]bool, len(services))
	for i, s := range items(l, services) {
		at := p.Index(i)
		switch {
		case s.Name == "":
			l.add(at.Key("name"), FaultRequired, "a service has a name")
		case !ValidName(s.Name):
			l.add(at.Key("name"), FaultBadFormat, "%s is not the name of a service: 1 to %d of a to z, 0 to 9, dot, underscore and dash",
				brief(s.Name), MaxNameLength)
		case seen[s.Name]:
			l.add(at.Key("name"), FaultDuplicate, "there is another service %s", brief(s.Name))
		}
		seen[s.Name] = true
		if s.Image == "" {
			l.add(at.Key("image"), FaultRequired, "a service has an image")
		} else {
			checkImage(l, at.Key("image"), s.Image)
		}
		for name, value := range sorted(l, s.Environment) {
			// Images read variables that no shell could set (discovery.type).
			vp := at.Key("environment").Key(name)
			if name == "" || strings.Contains(name, "=") {
				l.add(vp, FaultBadFormat, "%s is not the name of a variable", brief(name))
			}
			checkText(l, vp, name)
			checkText(l, vp, value)
			checkVariableSize(l, vp, name, value)
		}
		for j, arg := range items(l, s.Command) {
			checkText(l, at.Key("command").Index(j), arg)
		}
	}
}

func checkResources(l *faultList, p Path, r Resources) {
	if r.CPU != "" {
		if _, err := ParseCPU(r.CPU); err != nil {
			l.add(p.Key("cpu"), FaultBadFormat, "%s", err)
		}
	}
	if r.Memory != "" {
		if _, err := ParseMemory(r.Memory); err != nil {
			l.add(p.Key("memory"), FaultBadFormat, "%s", err)
		}
	}
	if r.PIDs < 0 {
		l.add(p.Key("pids"), FaultOutOfRange, "%d is negative", r.PIDs)
	}
}

func checkVolumes(l *faultList, p Path, volumes []Volume) {
	seen := make(map[string]bool, len(volumes))
	for i, v := range items(l, volumes) {
		at := p.Index(i)
		clean := path.Clean(v.Path)
		switch {
		case v.Path == "":
			l.add(at.Key("path"), FaultRequired, "a volume has a path")
		case !path.IsAbs(v.Path) || clean == "/":
			l.add(at.Key("path"), FaultBadFormat, "%s is not an absolute path below /", brief(v.Path))
		case seen[clean]:
			l.add(at.Key("path"), FaultDuplicate, "there is another volume at %s", brief(clean))
		}
		seen[clean] = true
		checkText(l, at.Key("path"), v.Path)
		if v.Tmpfs == nil {
			l.add(at.Key("tmpfs"), FaultRequired, "a volume needs a kind, and tmpfs is the only one")
		} else if v.Tmpfs.Size != "" {
			if _, err := ParseMemory(v.Tmpfs.Size); err != nil {
				l.add(at.Key("tmpfs").Key("size"), FaultBadFormat, "%s", err)
			}
		}
	}
}

func checkRetry(l *faultList, p Path, r Retry) {
	if r.MaxAttempts < 0 || r.MaxAttempts > MaxAttempts {
		l.add(p.Key("max_attempts"), FaultOutOfRange, "it is %d; it must be 1 to %d", r.MaxAttempts, MaxAttempts)
	}
	if r.On != nil && len(r.On) == 0 {
		l.add(p.Key("on"), FaultRequired, "the list is empty; leave it out for all outcomes")
	}
	for i, on := range items(l, r.On) {
		at := p.Key("on").Index(i)
		checkOne(l, at, on, r.On[:i], RetryFailed, RetryStartFailed)
	}
	checkTimeout(l, p.Key("backoff"), r.Backoff)
}

// checkOne checks an item of a list of enumerated values. Only a few items
// before it can be without fault, so a full list of faults bounds the cost.
func checkOne[T ~string](l *faultList, p Path, value T, before []T, allowed ...T) {
	switch {
	case value == "":
		l.add(p, FaultRequired, "the item is empty")
	case slices.Contains(before, value):
		l.add(p, FaultDuplicate, "%s is there already", brief(string(value)))
	default:
		checkEnum(l, p, value, allowed...)
	}
}

func checkSteps(l *faultList, p Path, steps []Step) {
	switch {
	case len(steps) == 0:
		l.add(p, FaultRequired, "a task has at least one step")
	case len(steps) > MaxSteps:
		l.add(p, FaultOverLimit, "there are %d steps; the limit is %d", len(steps), MaxSteps)
		return
	}
	for i := range steps {
		checkStep(l, p.Index(i), &steps[i])
	}
}

func checkStep(l *faultList, p Path, s *Step) {
	kinds := s.kinds()
	switch {
	case len(kinds) == 0:
		l.add(p, FaultRequired, "the step is empty: set run or an archive step")
	case len(kinds) > 1:
		l.add(p, FaultContradiction, "a step has exactly one type; this one has %s", strings.Join(kinds, " and "))
	}
	if s.Run != "" && strings.TrimSpace(s.Run) == "" {
		l.add(p.Key("run"), FaultRequired, "the script is blank")
	}
	if len(s.Run) > MaxScriptBytes {
		l.add(p.Key("run"), FaultOverLimit, "the script has %d bytes; the limit is %d", len(s.Run), MaxScriptBytes)
	}
	checkText(l, p.Key("run"), s.Run)
	if len(s.Name) > MaxNameLength {
		l.add(p.Key("name"), FaultOverLimit, "the name has %d bytes; the limit is %d", len(s.Name), MaxNameLength)
	}
	checkText(l, p.Key("name"), s.Name)
	checkEnvironment(l, p.Key("environment"), s.Environment)
	checkText(l, p.Key("working_dir"), s.WorkingDir)
	checkTimeout(l, p.Key("timeout"), s.Timeout)
	checkEnum(l, p.Key("when"), s.When, WhenOnSuccess, WhenOnFailure, WhenAlways)
}

// Type returns the type of the step, as its key in the specification: "run", or
// the key of an archive step; "" if it has none.
func (s *Step) Type() string {
	if kinds := s.kinds(); len(kinds) > 0 {
		return kinds[0]
	}
	return ""
}

func (s *Step) kinds() []string {
	if s.Run == "" {
		return s.types()
	}
	return append([]string{StepRun}, s.types()...)
}
