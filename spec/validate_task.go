package spec

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/inputs"
)

var (
	imagePattern = regexp.MustCompile(`^(?:(?:[a-zA-Z0-9.-]+|\[[a-fA-F0-9:]+\])(?::[0-9]+)?/)?` + // registry
		`[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*` + // repository
		`(?::\w[\w.-]{0,127})?(?:@[A-Za-z][A-Za-z0-9+._-]*:[0-9a-fA-F]{32,})?$`) // tag, digest
	platformPattern = regexp.MustCompile(`^[a-z0-9]+/[a-z0-9_]+(?:/[a-z0-9.]+)?$`)
	userPattern     = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*(?::[A-Za-z0-9_][A-Za-z0-9_.-]*)?$`)
)

// checkTask checks a task of a run; secrets are the sorted names of the secrets of the run.
func checkTask(l *faultList, name string, s *run.Spec, t *run.TaskSpec, secrets []string) {
	p := run.Path("tasks").Key(name)
	switch {
	case len(name) > run.MaxNameLength:
		l.add(p, run.FaultOverLimit, "the name has %d bytes; the limit is %d", len(name), run.MaxNameLength)
	case !run.ValidName(name):
		l.add(p, run.FaultBadFormat, "%s is not the name of a task: a to z, 0 to 9, dot, underscore and dash", quote(name))
	}
	if t == nil {
		l.add(p, run.FaultRequired, "the task is empty")
		return
	}
	checkPlacement(l, p, t)
	checkContainer(l, p, t, secrets)
	checkSteps(l, p.Key("steps"), t.Steps)
	for i := range t.Steps {
		checkCheckout(l, p.Key("steps").Index(i).Key("checkout"), t.Steps[i].Checkout, secrets)
	}
	checkArchives(l, p.Key("steps"), s.Group, t.Steps)
	checkApproval(l, p.Key("approval"), t.Approval)
	checkTimeout(l, p.Key("timeout"), t.Timeout)
	checkTimeout(l, p.Key("cleanup_timeout"), t.CleanupTimeout)
	if h := t.HoldOnFailure.Std(); h < 0 || h > run.MaxHold {
		l.add(p.Key("hold_on_failure"), run.FaultOutOfRange, "it is %s; it must be 0 to %s", h, run.MaxHold)
	}
	checkRetry(l, p.Key("retry"), t.Retry, run.RetryFailed, run.RetryStartFailed, run.RetryTimeout, run.RetryOOM, run.RetryVanished)
	checkEnum(l, p.Key("on_executor_lost"), t.OnLost, run.OnLostFail, run.OnLostRetry)
	checkFinally(l, p, t)
	checkMaxParallel(l, p.Key("max_parallel"), t)
	checkTaskChangeGroups(l, p, t, s.ChangeGroups)
}

func checkMaxParallel(l *faultList, p run.Path, t *run.TaskSpec) {
	if t.MaxParallel < 0 || t.MaxParallel > run.MaxTasks {
		l.add(p, run.FaultOutOfRange, "it is %d; it must be 1 to %d, or 0 for no limit", t.MaxParallel, run.MaxTasks)
	}
	if t.MaxParallel > 0 && t.Matrix.IsZero() && t.Foreach.List == "" {
		l.add(p, run.FaultContradiction, `the task is one task, without a matrix or a foreach; to limit it in several runs, use "changegroups"`)
	}
}

func checkApproval(l *faultList, p run.Path, a run.Approval) {
	if a.Approvers < 0 || a.Approvers > run.MaxApprovers {
		l.add(p.Key("approvers"), run.FaultOutOfRange, "it is %d; it must be 0 to %d", a.Approvers, run.MaxApprovers)
	}
	if a.Approvers == 0 && (a.From != nil || a.Timeout != 0) {
		l.add(p.Key("approvers"), run.FaultRequired, "the number of approvers is missing")
	}
	checkTimeout(l, p.Key("timeout"), a.Timeout)
	if a.From == nil {
		return
	}
	at := p.Key("from")
	switch {
	case len(a.From) > run.MaxApprovers:
		l.add(at, run.FaultOverLimit, "%d subjects are named; the limit is %d", len(a.From), run.MaxApprovers)
	case len(a.From) < a.Approvers:
		l.add(at, run.FaultContradiction, "%d approvals are needed, and only %d subjects may give them", a.Approvers, len(a.From))
	}
	seen := make(map[string]bool, len(a.From))
	for i, subject := range items(l, a.From) {
		switch {
		case subject == "":
			l.add(at.Index(i), run.FaultRequired, "it is the name of a subject")
		case seen[subject]:
			l.add(at.Index(i), run.FaultDuplicate, "the subject %s is named twice", quote(subject))
		}
		checkText(l, at.Index(i), subject)
		seen[subject] = true
	}
}

// checkPlacement checks the fields that decide where the task runs.
func checkPlacement(l *faultList, p run.Path, t *run.TaskSpec) {
	checkText(l, p.Key("pool"), t.Pool)
	r := t.Requires
	if r == nil {
		return
	}
	at := p.Key("requires")
	if t.Pool != "" && (r.Driver != "" || r.OS != "" || r.Arch != "") {
		l.add(at, run.FaultContradiction, "a task that names a pool can require labels of its executor, but no driver, os or arch: the pool determines them")
	}
	if r.Driver == "" && r.OS == "" && r.Arch == "" && len(r.Labels) == 0 {
		l.add(at, run.FaultRequired, "nothing is required: set driver, os, arch or labels")
	}
	checkText(l, at.Key("driver"), r.Driver)
	checkText(l, at.Key("os"), r.OS)
	checkText(l, at.Key("arch"), r.Arch)
	for k, v := range sorted(l, r.Labels) {
		checkText(l, at.Key("labels").Key(k), k)
		checkText(l, at.Key("labels").Key(k), v)
		if run.StatesResources(k) {
			l.add(at.Key("labels").Key(k), run.FaultContradiction, "this label states what executors offer: use resources of the task")
		}
	}
}

// checkContainer checks the environment that the steps run in.
func checkContainer(l *faultList, p run.Path, t *run.TaskSpec, secrets []string) {
	if t.Image != "" {
		checkImage(l, p.Key("image"), t.Image)
	}
	checkEnum(l, p.Key("pull_policy"), t.PullPolicy, run.PullIfNotPresent, run.PullAlways, run.PullNever)
	if t.Platform != "" && !platformPattern.MatchString(t.Platform) {
		l.add(p.Key("platform"), run.FaultBadFormat, "%s is not a platform such as linux/amd64", quote(t.Platform))
	}
	checkServices(l, p.Key("services"), t.Services, secrets)
	checkEnum(l, p.Key("service_network"), t.ServiceNetwork, run.ServiceNetworkShared, run.ServiceNetworkOwn)
	if t.ServiceNetwork == run.ServiceNetworkOwn && len(t.Services) == 0 {
		l.add(p.Key("service_network"), run.FaultContradiction, "the task has no services: remove the key, or add a service")
	}
	if t.ServiceNetwork == run.ServiceNetworkOwn && slices.ContainsFunc(t.Services, func(s run.ServiceSpec) bool { return slices.Contains(s.HostNames(), "localhost") }) {
		l.add(p.Key("service_network"), run.FaultContradiction, "a service has the name localhost, which is the task itself on such a network: give it another name")
	}
	checkExtraHosts(l, p.Key("extra_hosts"), t)
	checkEnvironment(l, p.Key("environment"), t.Environment)
	checkText(l, p.Key("working_dir"), t.WorkingDir)
	if t.SharesWorkingDir() && !volumePath(t.WorkingDir) {
		l.add(p.Key("working_dir"), run.FaultBadFormat,
			"%s is not an absolute path below /: it is a volume, since other containers of the task share it", quote(t.WorkingDir))
	}
	if t.Shell != nil && (len(t.Shell) == 0 || t.Shell[0] == "") {
		l.add(p.Key("shell"), run.FaultRequired, "a shell is a list whose first item is a program, such as [/bin/sh, -e]")
	}
	for i, arg := range items(l, t.Shell) {
		checkText(l, p.Key("shell").Index(i), arg)
	}
	checkEnum(l, p.Key("streams"), t.Streams, run.StreamsMerged, run.StreamsSplit)
	if t.User != "" && !userPattern.MatchString(t.User) {
		l.add(p.Key("user"), run.FaultBadFormat, "%s is not a user such as 1000, app or 1000:1000", quote(t.User))
	}
	checkResources(l, p.Key("resources"), t.Resources)
	checkVolumes(l, p, t)
	checkDevices(l, p.Key("devices"), t.Devices)
}

func checkImage(l *faultList, p run.Path, image string) {
	if inputs.HasReference(image) {
		return // it is checked again once the reference is replaced
	}
	if !imagePattern.MatchString(image) {
		l.add(p, run.FaultBadFormat, "%s is not the name of an image such as golang:1.26 or ghcr.io/owner/name:tag", quote(image))
	}
}

func checkResources(l *faultList, p run.Path, r run.Resources) {
	if r.CPU != "" {
		if _, err := run.ParseCPU(r.CPU); err != nil {
			l.add(p.Key("cpu"), run.FaultBadFormat, "%s", err)
		}
	}
	if r.Memory != "" {
		if _, err := run.ParseMemory(r.Memory); err != nil {
			l.add(p.Key("memory"), run.FaultBadFormat, "%s", err)
		}
	}
	if r.PIDs < 0 {
		l.add(p.Key("pids"), run.FaultOutOfRange, "%d is negative", r.PIDs)
	}
	if r.GPUs < 0 || r.GPUs > run.MaxGPUs {
		l.add(p.Key("gpus"), run.FaultOutOfRange, "%d is not between 0 and %d", r.GPUs, run.MaxGPUs)
	}
}

// checkRetry checks a retry policy; allowed are its outcomes.
func checkRetry(l *faultList, p run.Path, r run.Retry, allowed ...run.RetryOn) {
	if r.MaxAttempts < 0 || r.MaxAttempts > run.MaxAttempts {
		l.add(p.Key("max_attempts"), run.FaultOutOfRange, "it is %d; it must be 1 to %d", r.MaxAttempts, run.MaxAttempts)
	}
	if r.On != nil && len(r.On) == 0 {
		l.add(p.Key("on"), run.FaultRequired, "the list is empty; leave it out for all outcomes")
	}
	for i, on := range items(l, r.On) {
		at := p.Key("on").Index(i)
		checkOne(l, at, on, r.On[:i], allowed...)
	}
	checkExitCodes(l, p.Key("exit_codes"), r)
	checkTimeout(l, p.Key("backoff"), r.Backoff)
	checkTimeout(l, p.Key("backoff_max"), r.BackoffMax)
	if f := r.BackoffFactor; f != 0 && (f < 1 || f > maxBackoffFactor) {
		l.add(p.Key("backoff_factor"), run.FaultOutOfRange, "it is %g; it must be 1 to %d", f, maxBackoffFactor)
	}
	if j := r.BackoffJitter; j < 0 || j > 1 {
		l.add(p.Key("backoff_jitter"), run.FaultOutOfRange, "it is %g; it must be 0 to 1", j)
	}
	if r.Backoff > 0 {
		return
	}
	for _, field := range []struct {
		key   string
		isSet bool
	}{{"backoff_factor", r.BackoffFactor > 1}, {"backoff_max", r.BackoffMax > 0}, {"backoff_jitter", r.BackoffJitter > 0}} {
		if field.isSet {
			l.add(p.Key(field.key), run.FaultContradiction, "it has no effect without backoff, the wait before the second attempt")
		}
	}
}

// maxBackoffFactor is the greatest factor by which waits grow.
const maxBackoffFactor = 100

func checkExitCodes(l *faultList, p run.Path, r run.Retry) {
	switch {
	case r.ExitCodes == nil:
		return
	case len(r.ExitCodes) == 0:
		l.add(p, run.FaultRequired, "the list is empty; leave it out for all exit codes")
	case len(r.ExitCodes) > run.MaxExitCodes:
		l.add(p, run.FaultOverLimit, "there are %d exit codes; the limit is %d", len(r.ExitCodes), run.MaxExitCodes)
		return
	case r.On != nil && !slices.Contains(r.On, run.RetryFailed):
		l.add(p, run.FaultContradiction, "exit codes belong to the outcome %s, which is not in the list on", run.RetryFailed)
	}
	for i, code := range items(l, r.ExitCodes) {
		switch {
		case code < 1:
			l.add(p.Index(i), run.FaultOutOfRange, "it is %d; it must be at least 1", code)
		case slices.Contains(r.ExitCodes[:i], code):
			l.add(p.Index(i), run.FaultDuplicate, "%d is there already", code)
		}
	}
}

// checkOne checks an item of a list of enumerated values. Only a few items
// before it can be without fault, so a full list of faults bounds the cost.
func checkOne[T ~string](l *faultList, p run.Path, value T, before []T, allowed ...T) {
	switch {
	case value == "":
		l.add(p, run.FaultRequired, "the item is empty")
	case slices.Contains(before, value):
		l.add(p, run.FaultDuplicate, "%s is there already", quote(string(value)))
	default:
		checkEnum(l, p, value, allowed...)
	}
}

func checkSteps(l *faultList, p run.Path, steps []run.Step) {
	switch {
	case len(steps) == 0:
		l.add(p, run.FaultRequired, "a task has at least one step")
	case len(steps) > run.MaxSteps:
		l.add(p, run.FaultOverLimit, "there are %d steps; the limit is %d", len(steps), run.MaxSteps)
		return
	}
	for i := range steps {
		checkStep(l, p.Index(i), &steps[i])
	}
	checkHelpers(l, p, steps)
}

// checkHelpers limits the images of the steps of a task: each is a container for the
// whole time of the task.
func checkHelpers(l *faultList, p run.Path, steps []run.Step) {
	var images []string
	for i := range steps {
		image := steps[i].Image
		if image == "" || slices.Contains(images, image) {
			continue
		}
		if images = append(images, image); len(images) > run.MaxHelpers {
			l.add(p.Index(i).Key("image"), run.FaultOverLimit, "the steps of a task may have at most %d different images", run.MaxHelpers)
			return
		}
	}
}

func checkStep(l *faultList, p run.Path, s *run.Step) {
	kinds := s.Types()
	switch {
	case len(kinds) == 0:
		l.add(p, run.FaultRequired, "the step is empty: set run, checkout or an archive step")
	case len(kinds) > 1:
		l.add(p, run.FaultContradiction, "a step has exactly one type; this one has %s", strings.Join(kinds, " and "))
	}
	if s.Run != "" && strings.TrimSpace(s.Run) == "" {
		l.add(p.Key("run"), run.FaultRequired, "the script is blank")
	}
	if len(s.Run) > run.MaxScriptBytes {
		l.add(p.Key("run"), run.FaultOverLimit, "the script has %d bytes; the limit is %d", len(s.Run), run.MaxScriptBytes)
	}
	checkText(l, p.Key("run"), s.Run)
	if len(s.Name) > run.MaxNameLength {
		l.add(p.Key("name"), run.FaultOverLimit, "the name has %d bytes; the limit is %d", len(s.Name), run.MaxNameLength)
	}
	checkText(l, p.Key("name"), s.Name)
	if s.Image != "" {
		checkImage(l, p.Key("image"), s.Image)
		if kind := s.Type(); kind != run.StepRun && kind != run.StepCheckout {
			l.add(p.Key("image"), run.FaultContradiction, "only steps with run or checkout have images of their own")
		}
	}
	checkRetry(l, p.Key("retry"), s.Retry, run.RetryFailed, run.RetryTimeout, run.RetryOOM)
	if s.Type() != run.StepRun && s.Retry.MaxAttempts > 1 {
		l.add(p.Key("retry"), run.FaultContradiction, "only steps with run are retried")
	}
	checkEnvironment(l, p.Key("environment"), s.Environment)
	checkText(l, p.Key("working_dir"), s.WorkingDir)
	checkTimeout(l, p.Key("timeout"), s.Timeout)
	checkEnum(l, p.Key("when"), s.When, run.WhenOnSuccess, run.WhenOnFailure, run.WhenAlways, run.WhenOnStop)
	checkEnum(l, p.Key("streams"), s.Streams, run.StreamsMerged, run.StreamsSplit)
}

// volumePath reports whether a working directory can be a volume; "" is
// run.SharedWorkingDir then.
func volumePath(dir string) bool {
	return dir == "" || path.IsAbs(dir) && path.Clean(dir) != "/"
}
