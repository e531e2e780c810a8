package spec_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// valid returns a specification without faults that uses nearly every field.
func valid() *run.Spec {
	return &run.Spec{
		Name: "build", Group: "/project/42/branch/feature_1", Priority: 2, Admission: run.AdmissionManual,
		Annotations: map[string]string{"commit": "4f2a"},
		Environment: map[string]string{"GOFLAGS": "-trimpath", "BRACES": "{{ .Name }}"},
		Secrets:     map[string]run.Secret{"TOKEN": "hunter2", "KUBECONFIG": "clusters: []"},
		SecretFiles: []string{"KUBECONFIG"},
		Registries:  map[string]run.Registry{"ghcr.io": {Username: "u", PasswordSecret: "TOKEN"}, "localhost:5000": {Username: "u", PasswordSecret: "TOKEN"}},
		Timeout:     run.Duration(1),
		Tasks: map[string]*run.TaskSpec{
			"build": {
				Image: "ghcr.io/owner/name:1.26@sha256:" + strings.Repeat("0f", 32), PullPolicy: run.PullAlways, Platform: "linux/arm/v7",
				Services:    []run.ServiceSpec{{Name: "db", Image: "postgres:16", Environment: map[string]string{"discovery.type": "single-node"}}},
				Environment: map[string]string{"A": "b"}, WorkingDir: "/src", Shell: []string{"/bin/bash", "-eu"}, User: "1000:1000",
				Resources: run.Resources{CPU: "500m", Memory: "4Gi", PIDs: 10},
				Volumes:   []run.Volume{{Path: "/scratch", Tmpfs: &run.Tmpfs{Size: "64Mi"}}, {Path: "/tmp", Tmpfs: &run.Tmpfs{}}},
				Steps: []run.Step{
					{Name: "vet", Run: "go vet ./...", Environment: map[string]string{"X": "y"}, When: run.WhenAlways},
					{Run: "true"},
				},
				Approval: run.Approval{Approvers: 2}, Matrix: run.Matrix{Axes: map[string][]string{"GO": {"1.25", "1.26"}}},
				Retry:  run.Retry{MaxAttempts: 3, On: []run.RetryOn{run.RetryFailed}},
				OnLost: run.OnLostRetry,
			},
			"test": {
				Requires: &run.Requires{Driver: "docker", Labels: map[string]string{"k": "v"}}, Steps: []run.Step{{Run: "true"}},
				Depends: []run.Depend{{Task: "build", On: []run.Condition{run.OnSuccess, run.OnSkipped}}},
			},
		},
	}
}

func found(faults []run.Fault) []string {
	var out []string
	for _, f := range faults {
		out = append(out, f.Path+" "+string(f.Code))
	}
	return out
}

func TestValidateRun_OK(t *testing.T) {
	t.Parallel()
	require.Empty(t, spec.ValidateRun(valid()))
	s := valid()
	s.Tasks["build"].Volumes = []run.Volume{
		{Path: "/src/", Name: "src"},
		{Path: "/srcs", Tmpfs: &run.Tmpfs{}},
		{Path: "/drover", Name: "src"},
		{Path: "/devs", Name: "b"},
		{Path: "/t", Tmpfs: &run.Tmpfs{}},
		{Path: "/t/t", Tmpfs: &run.Tmpfs{}},
	}
	s.Tasks["build"].Services[0].ShareWorkingDir = true
	require.Empty(t, spec.ValidateRun(s), "a persistent volume may be the working directory")
	require.Empty(t, spec.ValidateRun(&run.Spec{Name: "n", Group: "/a/b", SetupErrors: []string{"no such branch"}}), "a run with setup errors may have no tasks")
}

func TestValidateRun_Faults(t *testing.T) {
	t.Parallel()
	const nul = "a\x00b"
	type target = *run.Spec
	build := func(change func(t *run.TaskSpec)) func(s target) {
		return func(s target) { change(s.Tasks["build"]) }
	}
	step := func(change func(s *run.Step)) func(s target) {
		return func(s target) { change(&s.Tasks["build"].Steps[0]) }
	}
	volumes := func(workingDir string, v ...run.Volume) func(s target) { // a service shares the directory
		return build(func(t *run.TaskSpec) {
			t.Volumes, t.WorkingDir, t.Services[0].ShareWorkingDir = v, workingDir, true
		})
	}
	checkout := func(workingDir string, v ...run.Volume) func(s target) {
		return build(func(t *run.TaskSpec) {
			t.Volumes, t.WorkingDir, t.Steps[0] = v, workingDir, run.Step{Checkout: &run.Checkout{Repository: "https://h/r"}}
		})
	}
	test := func(d ...run.Depend) func(s target) {
		return func(s target) { s.Tasks["test"].Depends = d }
	}
	for name, c := range map[string]struct {
		change func(s target)
		want   []string
	}{
		"no name":         {func(s target) { s.Name = " " }, []string{"name required"}},
		"long name":       {func(s target) { s.Name = strings.Repeat("n", 101) }, []string{"name over_limit"}},
		"control in name": {func(s target) { s.Name = "a\nb" }, []string{"name bad_format"}},
		"secrets of a provider in an untrusted run": {func(s target) {
			s.Untrusted, s.SecretsFrom = true, map[string]run.SecretRef{"A": {Provider: "p", Name: "a"}}
		}, []string{"secrets_from contradiction"}},
		"no group":              {func(s target) { s.Group = "" }, []string{"group required"}},
		"group of one element":  {func(s target) { s.Group = "/project" }, []string{"group bad_format"}},
		"relative group":        {func(s target) { s.Group = "project/42" }, []string{"group bad_format"}},
		"group ends with slash": {func(s target) { s.Group = "/project/" }, []string{"group bad_format"}},
		"group with dots":       {func(s target) { s.Group = "/project/../42" }, []string{"group bad_format"}},
		"long group":            {func(s target) { s.Group = "/a/" + strings.Repeat("b", 500) }, []string{"group over_limit"}},
		"control in group":      {func(s target) { s.Group = "/a/b\x7f" }, []string{"group bad_format"}},
		"empty change group":    {func(s target) { s.ChangeGroups = []string{"a", ""} }, []string{"changegroups[1] bad_format"}},
		"long change group":     {func(s target) { s.ChangeGroups = []string{strings.Repeat("a", 101)} }, []string{"changegroups[0] bad_format"}},
		"change groups of a task": {build(func(t *run.TaskSpec) {
			t.ChangeGroups = []run.TaskChangeGroup{{Name: "a"}, {Name: ""}, {Name: "a", Units: 1001}, {Name: "group:/a"}, {Name: "b", Units: -1}}
		}), []string{"tasks.build.changegroups[1].name bad_format", "tasks.build.changegroups[2].name duplicate", "tasks.build.changegroups[2].units out_of_range", "tasks.build.changegroups[3].name bad_value", "tasks.build.changegroups[4].units out_of_range"}},
		"a change group at both levels": {func(s target) {
			s.ChangeGroups, s.Tasks["build"].ChangeGroups = []string{"a"}, []run.TaskChangeGroup{{Name: "b"}, {Name: "a"}}
		}, []string{"tasks.build.changegroups[1].name contradiction"}},
		"change group twice": {func(s target) { s.ChangeGroups = []string{"a", "b", "a"} }, []string{"changegroups[2] duplicate"}},
		"many change groups": {func(s target) {
			for i := range 65 {
				s.ChangeGroups = append(s.ChangeGroups, strconv.Itoa(i))
			}
		}, []string{"changegroups over_limit"}},
		"priority":             {func(s target) { s.Priority = 6 }, []string{"priority out_of_range"}},
		"negative priority":    {func(s target) { s.Priority = -1 }, []string{"priority out_of_range"}},
		"admission":            {func(s target) { s.Admission = "later" }, []string{"admission bad_value"}},
		"run timeout":          {func(s target) { s.Timeout = -1 }, []string{"timeout out_of_range"}},
		"annotation key":       {func(s target) { s.Annotations["a=b"] = "" }, []string{"annotations[\"a=b\"] bad_format"}},
		"annotation value":     {func(s target) { s.Annotations["a"] = strings.Repeat("v", 2000) }, []string{"annotations.a over_limit"}},
		"annotation with NUL":  {func(s target) { s.Annotations["a"] = nul }, []string{"annotations.a bad_format"}},
		"variable name":        {func(s target) { s.Environment["1A"] = "" }, []string{"environment.1A bad_format"}},
		"empty variable name":  {func(s target) { s.Environment[""] = "" }, []string{`environment[""] bad_format`}},
		"reserved variable":    {func(s target) { s.Environment["DROVER_X"] = "" }, []string{"environment.DROVER_X reserved"}},
		"variable with NUL":    {func(s target) { s.Environment["A"] = nul }, []string{"environment.A bad_format"}},
		"variable not UTF-8":   {func(s target) { s.Environment["A"] = "\xff" }, []string{"environment.A bad_format"}},
		"huge variable":        {func(s target) { s.Environment["A"] = strings.Repeat("x", 128<<10) }, []string{"environment.A over_limit"}},
		"output template":      {func(s target) { s.Environment["A"] = `{{- output "plan" "x" }}` }, []string{"environment.A not_supported"}},
		"output not above":     {build(func(t *run.TaskSpec) { t.Environment["A"] = `{{ output "test" "x" }}` }), []string{"tasks.build.environment.A unknown_dependency"}},
		"output of none":       {build(func(t *run.TaskSpec) { t.Environment["A"] = `{{ output "bild" "x" }}` }), []string{"tasks.build.environment.A unknown_dependency"}},
		"own output":           {build(func(t *run.TaskSpec) { t.Environment["A"] = `{{ output "build" "x" }}` }), []string{"tasks.build.environment.A unknown_dependency"}},
		"malformed output":     {step(func(s *run.Step) { s.Environment = map[string]string{"A": `{{ output "a" | json }}`} }), []string{"tasks.build.steps[0].environment.A bad_format"}},
		"output for a service": {build(func(t *run.TaskSpec) { t.Services[0].Environment = map[string]string{"A": `{{ output "a" "b" }}`} }), []string{"tasks.build.services[0].environment.A not_supported"}},
		"secret name":          {func(s target) { s.Secrets["a-b"] = "x" }, []string{"secrets.a-b bad_format"}},
		"reserved secret":      {func(s target) { s.Secrets["DROVER_X"] = "x" }, []string{"secrets.DROVER_X reserved"}},
		"secret with NUL":      {func(s target) { s.Secrets["A"] = nul }, []string{"secrets.A bad_format"}},
		"registry":             {func(s target) { s.Registries["a/b"] = run.Registry{} }, []string{"registries.a/b bad_format", "registries.a/b.username required", "registries.a/b.password_secret required"}},
		"secret files":         {func(s target) { s.SecretFiles = []string{"KUBECONFIG", "KUBECONFG", "", "KUBECONFIG"} }, []string{"secret_files[1] unknown_secret", "secret_files[2] required", "secret_files[3] duplicate"}},
		"registry secret":      {func(s target) { s.Registries["a"] = run.Registry{Username: "u", PasswordSecret: "TOKN"} }, []string{"registries.a.password_secret unknown_secret"}},
		"blank setup error":    {func(s target) { s.SetupErrors = []string{""} }, []string{"setup_errors[0] required"}},
		"no tasks":             {func(s target) { s.Tasks = nil }, []string{"tasks required"}},
		"empty task":           {func(s target) { s.Tasks["a"] = nil }, []string{"tasks.a required"}},
		"task name":            {func(s target) { s.Tasks["A"] = s.Tasks["test"] }, []string{"tasks.A bad_format"}},
		"task name of dots":    {func(s target) { s.Tasks[".."] = s.Tasks["test"] }, []string{"tasks... bad_format"}},
		"empty task name":      {func(s target) { s.Tasks[""] = s.Tasks["test"] }, []string{`tasks[""] bad_format`}},
		"long task name":       {func(s target) { s.Tasks[strings.Repeat("a", 101)] = s.Tasks["test"] }, []string{`tasks["` + strings.Repeat("a", 97) + `…"] over_limit`}},
		"pool and requires":    {func(s target) { s.Tasks["test"].Pool = "p" }, []string{"tasks.test.requires contradiction"}},
		"requires nothing":     {func(s target) { s.Tasks["test"].Requires = &run.Requires{} }, []string{"tasks.test.requires required"}},
		"pool with NUL":        {build(func(t *run.TaskSpec) { t.Pool = nul }), []string{"tasks.build.pool bad_format"}},
		"image":                {build(func(t *run.TaskSpec) { t.Image = "Golang:1.26" }), []string{"tasks.build.image bad_format"}},
		"image with blank":     {build(func(t *run.TaskSpec) { t.Image = "golang: 1" }), []string{"tasks.build.image bad_format"}},
		"pull policy":          {build(func(t *run.TaskSpec) { t.PullPolicy = "Always" }), []string{"tasks.build.pull_policy bad_value"}},
		"platform":             {build(func(t *run.TaskSpec) { t.Platform = "linux" }), []string{"tasks.build.platform bad_format"}},
		"service":              {build(func(t *run.TaskSpec) { t.Services = []run.ServiceSpec{{}} }), []string{"tasks.build.services[0].image required"}},
		"service name":         {build(func(t *run.TaskSpec) { t.Services[0].Name = "D b" }), []string{"tasks.build.services[0].name bad_format"}},
		"duplicate services":   {build(func(t *run.TaskSpec) { t.Services = append(t.Services, t.Services[0]) }), []string{"tasks.build.services[1].name duplicate"}},
		"service image":        {build(func(t *run.TaskSpec) { t.Services[0].Image = "-" }), []string{"tasks.build.services[0].image bad_format"}},
		"service variable":     {build(func(t *run.TaskSpec) { t.Services[0].Environment["a=b"] = nul }), []string{`tasks.build.services[0].environment["a=b"] bad_format`, `tasks.build.services[0].environment["a=b"] bad_format`}},
		"service command":      {build(func(t *run.TaskSpec) { t.Services[0].Command = []string{"a", nul} }), []string{"tasks.build.services[0].command[1] bad_format"}},
		"task variable":        {build(func(t *run.TaskSpec) { t.Environment["a b"] = "" }), []string{`tasks.build.environment["a b"] bad_format`}},
		"working dir":          {build(func(t *run.TaskSpec) { t.WorkingDir = nul }), []string{"tasks.build.working_dir bad_format"}},
		"empty shell":          {build(func(t *run.TaskSpec) { t.Shell = []string{} }), []string{"tasks.build.shell required"}},
		"shell with NUL":       {build(func(t *run.TaskSpec) { t.Shell = []string{"sh", nul} }), []string{"tasks.build.shell[1] bad_format"}},
		"user":                 {build(func(t *run.TaskSpec) { t.User = "a:b:c" }), []string{"tasks.build.user bad_format"}},
		"resources":            {build(func(t *run.TaskSpec) { t.Resources = run.Resources{CPU: "two", Memory: "4GB", PIDs: -1} }), []string{"tasks.build.resources.cpu bad_format", "tasks.build.resources.memory bad_format", "tasks.build.resources.pids out_of_range"}},
		"volume":               {build(func(t *run.TaskSpec) { t.Volumes = []run.Volume{{}} }), []string{"tasks.build.volumes[0].path required", "tasks.build.volumes[0] required"}},
		"relative volume":      {build(func(t *run.TaskSpec) { t.Volumes[0].Path = "scratch" }), []string{"tasks.build.volumes[0].path bad_format"}},
		"volume at root":       {build(func(t *run.TaskSpec) { t.Volumes[0].Path = "/a/.." }), []string{"tasks.build.volumes[0].path bad_format"}},
		"duplicate volume":     {build(func(t *run.TaskSpec) { t.Volumes[0].Path = "/tmp/" }), []string{"tasks.build.volumes[1].path duplicate"}},
		"volume of two kinds":  {build(func(t *run.TaskSpec) { t.Volumes[0].Name = "cache" }), []string{"tasks.build.volumes[0].name contradiction"}},
		"name of a volume":     {build(func(t *run.TaskSpec) { t.Volumes = []run.Volume{{Path: "/a", Name: "-a"}} }), []string{"tasks.build.volumes[0].name bad_format"}},
		"host path and name":   {build(func(t *run.TaskSpec) { t.Volumes = []run.Volume{{Path: "/a", Name: "a", HostPath: "/srv"}} }), []string{"tasks.build.volumes[0].host_path contradiction"}},
		"host path and tmpfs":  {build(func(t *run.TaskSpec) { t.Volumes[0].HostPath = "/srv" }), []string{"tasks.build.volumes[0].host_path contradiction"}},
		"host path":            {build(func(t *run.TaskSpec) { t.Volumes = []run.Volume{{Path: "/a", HostPath: "/srv/../etc"}} }), []string{"tasks.build.volumes[0].host_path bad_format"}},
		"host path with NUL":   {build(func(t *run.TaskSpec) { t.Volumes = []run.Volume{{Path: "/a", HostPath: "/srv" + nul}} }), []string{"tasks.build.volumes[0].host_path bad_format"}},
		"host path at a place": {build(func(t *run.TaskSpec) { t.Volumes = []run.Volume{{Path: "/etc/hosts", HostPath: "/srv"}} }), []string{"tasks.build.volumes[0].path bad_value"}},
		"host paths that are nested": {
			volumes("/work", run.Volume{Path: "/a", HostPath: "/srv"}, run.Volume{Path: "/a/b", Tmpfs: &run.Tmpfs{}}, run.Volume{Path: "/c", Tmpfs: &run.Tmpfs{}}, run.Volume{Path: "/c/d", HostPath: "/srv"}),
			[]string{"tasks.build.volumes[1].path contradiction", "tasks.build.volumes[3].path contradiction"},
		},
		"long host path": {build(func(t *run.TaskSpec) {
			t.Volumes = []run.Volume{{Path: "/a", HostPath: "/" + strings.Repeat("x", run.MaxHostPath)}}
		}), []string{"tasks.build.volumes[0].host_path over_limit"}},
		"untrusted run with the host": {func(s target) {
			s.Untrusted = true
			t := s.Tasks["build"]
			t.Volumes, t.Devices = []run.Volume{{Path: "/a", HostPath: "/srv", ReadOnly: true}}, []string{"/dev/kvm"}
		}, []string{"tasks.build.volumes[0].host_path contradiction", "tasks.build.devices contradiction"}},
		"host path as working directory": {volumes("/work", run.Volume{Path: "/work", HostPath: "/srv"}), []string{"tasks.build.volumes[0].host_path contradiction"}},
		"devices":                        {build(func(t *run.TaskSpec) { t.Devices = []string{"/dev/kvm", "/etc/passwd", "/dev/kvm"} }), []string{"tasks.build.devices[1] bad_format", "tasks.build.devices[2] duplicate"}},
		"many devices": {build(func(t *run.TaskSpec) {
			for i := range run.MaxDevices + 1 {
				t.Devices = append(t.Devices, "/dev/tty"+strconv.Itoa(i))
			}
		}), []string{"tasks.build.devices over_limit"}},
		"many host paths": {build(func(t *run.TaskSpec) {
			t.Volumes = nil
			for i := range run.MaxLastingVolumes + 1 {
				t.Volumes = append(t.Volumes, run.Volume{Path: "/v/" + strconv.Itoa(i), HostPath: "/srv"})
			}
		}), []string{"tasks.build.volumes over_limit"}},
		"read-only tmpfs":               {build(func(t *run.TaskSpec) { t.Volumes[0].ReadOnly = true }), []string{"tasks.build.volumes[0].read_only contradiction"}},
		"nested volumes":                {volumes("", run.Volume{Path: "/a/../x/", Name: "x"}, run.Volume{Path: "/x-y", Tmpfs: &run.Tmpfs{}}, run.Volume{Path: "/x//y", Tmpfs: &run.Tmpfs{}}), []string{"tasks.build.volumes[2].path contradiction"}},
		"nested by name":                {volumes("", run.Volume{Path: "/x/y/z", Name: "x"}, run.Volume{Path: "/x", Name: "y"}, run.Volume{Path: "/x/y", Tmpfs: &run.Tmpfs{}}), []string{"tasks.build.volumes[2].path contradiction", "tasks.build.volumes[0].path contradiction"}},
		"nested in memory":              {volumes("", run.Volume{Path: "/x/y", Name: "x"}, run.Volume{Path: "/x", Tmpfs: &run.Tmpfs{}}), []string{"tasks.build.volumes[0].path contradiction"}},
		"nested directory":              {volumes("/x/y", run.Volume{Path: "/x", Name: "x"}), []string{"tasks.build.working_dir contradiction"}},
		"nested in directory":           {volumes("/x", run.Volume{Path: "/x/y", Name: "x"}), []string{"tasks.build.volumes[0].path contradiction"}},
		"nested by default":             {volumes("", run.Volume{Path: "/workspace/y", Name: "x"}), []string{"tasks.build.volumes[0].path contradiction"}},
		"nested at a checkout":          {checkout("/x/y", run.Volume{Path: "/x", Name: "x"}), []string{"tasks.build.working_dir contradiction"}},
		"a read-only working directory": {volumes("/w", run.Volume{Path: "/w", Name: "w", ReadOnly: true}), []string{"tasks.build.volumes[0].read_only contradiction"}},
		"many persistent volumes": {build(func(t *run.TaskSpec) {
			t.Volumes = nil
			for i := range run.MaxLastingVolumes + 1 {
				t.Volumes = append(t.Volumes, run.Volume{Path: "/v/" + strconv.Itoa(i), Name: "v"})
			}
		}), []string{"tasks.build.volumes over_limit"}},
		"system volumes": {volumes("/work", run.Volume{Path: "/etc/", Name: "a"}, run.Volume{Path: "/etc/x", Name: "a"}), []string{"tasks.build.volumes[0].path bad_value", "tasks.build.volumes[1].path contradiction"}},
		"volumes beside gpus": {
			build(func(t *run.TaskSpec) {
				t.Resources.GPUs = 1
				t.Volumes = []run.Volume{
					{Path: "/usr/local/x", Name: "a"},
					{Path: "/etc/x", Name: "a"},
					{Path: "/lib32", Name: "a"},
					{Path: "/run/x", Name: "a"},
					{Path: "/var/run/x", Name: "a"},
					{Path: "/library", Name: "a"},
					{Path: "/var/x", Name: "a"},
					{Path: "/usr/x", Tmpfs: &run.Tmpfs{}},
				}
			}),
			[]string{"tasks.build.volumes[0].path bad_value", "tasks.build.volumes[1].path bad_value", "tasks.build.volumes[2].path bad_value", "tasks.build.volumes[3].path bad_value", "tasks.build.volumes[4].path bad_value"},
		},
		"deep volumes": {
			build(func(t *run.TaskSpec) {
				t.Volumes = []run.Volume{{Path: strings.Repeat("/a", 16) + "/", Name: "a"}, {Path: strings.Repeat("/b", 17), Name: "b"}, {Path: strings.Repeat("/c", 17), Tmpfs: &run.Tmpfs{}}}
			}),
			[]string{"tasks.build.volumes[1].path over_limit", "tasks.build.volumes[2].path over_limit"},
		},
		"a deep volume without persistent ones": {
			build(func(t *run.TaskSpec) {
				t.Volumes = []run.Volume{{Path: strings.Repeat("/a", 17), Tmpfs: &run.Tmpfs{}}}
			}), nil,
		},
		"long volumes": {
			volumes("/"+strings.Repeat("w", 512), run.Volume{Path: "/" + strings.Repeat("a", 511), Name: "a"}, run.Volume{Path: "/" + strings.Repeat("b", 512), Name: "b"}),
			[]string{"tasks.build.volumes[1].path over_limit", "tasks.build.working_dir over_limit"},
		},
		"a long directory without persistent volumes": {volumes("/" + strings.Repeat("w", 512)), nil},
		"reserved volumes": {
			volumes("/work", run.Volume{Path: "/proc/../.drover", Name: "a"}, run.Volume{Path: "/.drover/x", Name: "a"}, run.Volume{Path: "/proc", Name: "a"}, run.Volume{Path: "/sys/x", Name: "a"}, run.Volume{Path: "/dev/shm", Name: "a"}),
			[]string{"tasks.build.volumes[0].path bad_value", "tasks.build.volumes[1].path bad_value", "tasks.build.volumes[2].path bad_value", "tasks.build.volumes[3].path bad_value", "tasks.build.volumes[4].path bad_value", "tasks.build.volumes[1].path contradiction"},
		},
		"tmpfs size":           {build(func(t *run.TaskSpec) { t.Volumes[0].Tmpfs.Size = "-1" }), []string{"tasks.build.volumes[0].tmpfs.size bad_format"}},
		"no steps":             {build(func(t *run.TaskSpec) { t.Steps = nil }), []string{"tasks.build.steps required"}},
		"many steps":           {build(func(t *run.TaskSpec) { t.Steps = make([]run.Step, 257) }), []string{"tasks.build.steps over_limit"}},
		"empty step":           {build(func(t *run.TaskSpec) { t.Steps[0].Run = "" }), []string{"tasks.build.steps[0] required"}},
		"blank step":           {build(func(t *run.TaskSpec) { t.Steps[0].Run = " \n" }), []string{"tasks.build.steps[0].run required"}},
		"two kinds":            {step(func(s *run.Step) { s.SaveCache = &run.SaveCache{Key: "k"} }), []string{"tasks.build.steps[0] contradiction"}},
		"huge script":          {step(func(s *run.Step) { s.Run = strings.Repeat("x", 512<<10+1) }), []string{"tasks.build.steps[0].run over_limit"}},
		"script with NUL":      {step(func(s *run.Step) { s.Run = nul }), []string{"tasks.build.steps[0].run bad_format"}},
		"step name":            {step(func(s *run.Step) { s.Name = strings.Repeat("x", 101) }), []string{"tasks.build.steps[0].name over_limit"}},
		"step variable":        {step(func(s *run.Step) { s.Environment["DROVER_A"] = "" }), []string{"tasks.build.steps[0].environment.DROVER_A reserved"}},
		"step timeout":         {step(func(s *run.Step) { s.Timeout = -1 }), []string{"tasks.build.steps[0].timeout out_of_range"}},
		"when":                 {step(func(s *run.Step) { s.When = "on_succes" }), []string{"tasks.build.steps[0].when bad_value"}},
		"streams of a step":    {step(func(s *run.Step) { s.Streams = "both" }), []string{"tasks.build.steps[0].streams bad_value"}},
		"streams of a task":    {build(func(t *run.TaskSpec) { t.Streams = "Merged" }), []string{"tasks.build.streams bad_value"}},
		"unknown dependency":   {test(run.Depend{Task: "build"}, run.Depend{Task: "biuld"}), []string{"tasks.test.depends[1].task unknown_dependency"}},
		"unnamed dependency":   {test(run.Depend{}), []string{"tasks.test.depends[0].task required"}},
		"self dependency":      {test(run.Depend{Task: "test"}), []string{"tasks.test.depends[0].task cycle"}},
		"duplicate dependency": {test(run.Depend{Task: "build"}, run.Depend{Task: "build"}), []string{"tasks.test.depends[1].task duplicate"}},
		"one of an expansion":  {test(run.Depend{Task: "build[GO=1.25]"}), []string{"tasks.test.depends[0].task unknown_dependency"}},
		"empty condition list": {test(run.Depend{Task: "build", On: []run.Condition{}}), []string{"tasks.test.depends[0].on required"}},
		"conditions":           {test(run.Depend{Task: "build", On: []run.Condition{"success", "success", "failed", ""}}), []string{"tasks.test.depends[0].on[1] duplicate", "tasks.test.depends[0].on[2] bad_value", "tasks.test.depends[0].on[3] required"}},
		"empty task and a reference": {func(s target) {
			s.Tasks["none"] = nil
			s.Tasks["test"].Environment = map[string]string{"A": `{{ output "plan" "x" }}`}
			s.Tasks["plan"] = &run.TaskSpec{Steps: []run.Step{{Run: "true"}}}
		}, []string{"tasks.none required"}},
		"cycle":                   {build(func(t *run.TaskSpec) { t.Depends = []run.Depend{{Task: "test"}} }), []string{"tasks.test.depends[0].task cycle"}},
		"approvers":               {build(func(t *run.TaskSpec) { t.Approval.Approvers = -1 }), []string{"tasks.build.approval.approvers out_of_range"}},
		"task timeout":            {build(func(t *run.TaskSpec) { t.Timeout = -1 }), []string{"tasks.build.timeout out_of_range"}},
		"retry":                   {build(func(t *run.TaskSpec) { t.Retry = run.Retry{MaxAttempts: 101, On: []run.RetryOn{}, Backoff: -1} }), []string{"tasks.build.retry.max_attempts out_of_range", "tasks.build.retry.on required", "tasks.build.retry.backoff out_of_range"}},
		"retry outcomes":          {build(func(t *run.TaskSpec) { t.Retry.On = []run.RetryOn{"lost"} }), []string{"tasks.build.retry.on[0] bad_value"}},
		"on executor lost":        {build(func(t *run.TaskSpec) { t.OnLost = "wait" }), []string{"tasks.build.on_executor_lost bad_value"}},
		"foreach":                 {build(func(t *run.TaskSpec) { t.Foreach.List = "[]" }), []string{"tasks.build.foreach contradiction", "tasks.build.foreach bad_value"}},
		"max_parallel":            {build(func(t *run.TaskSpec) { t.MaxParallel = 10_001 }), []string{"tasks.build.max_parallel out_of_range"}},
		"max_parallel of one":     {func(s target) { s.Tasks["test"].MaxParallel = 2 }, []string{"tasks.test.max_parallel contradiction"}},
		"axis name":               {build(func(t *run.TaskSpec) { t.Matrix.Axes["a-b"] = []string{"1"} }), []string{"tasks.build.matrix.a-b bad_format"}},
		"reserved axis":           {build(func(t *run.TaskSpec) { t.Matrix.Axes["DROVER_A"] = []string{"1"} }), []string{"tasks.build.matrix.DROVER_A reserved"}},
		"empty axis":              {build(func(t *run.TaskSpec) { t.Matrix.Axes["A"] = nil }), []string{"tasks.build.matrix.A required"}},
		"axis value twice":        {build(func(t *run.TaskSpec) { t.Matrix.Axes["A"] = []string{"x", "x"} }), []string{"tasks.build.matrix.A[1] duplicate"}},
		"names that clash":        {build(func(t *run.TaskSpec) { t.Matrix.Axes["A"] = []string{"x/y", "z", "x y"} }), []string{"tasks.build.matrix.A[2] duplicate"}},
		"long names":              {build(func(t *run.TaskSpec) { t.Matrix.Axes["A"] = []string{strings.Repeat("x", 250)} }), []string{"tasks.build.matrix over_limit"}},
		"output in a matrix":      {build(func(t *run.TaskSpec) { t.Matrix.Axes["A"] = []string{`{{output "a" "b"}}`} }), []string{"tasks.build.matrix.A[0] not_supported"}},
		"too many after all":      {build(func(t *run.TaskSpec) { t.Matrix = wide(100, 100) }), []string{"tasks over_limit"}},
		"far too many":            {build(func(t *run.TaskSpec) { t.Matrix = wide(200, 200, 200, 200, 200, 200, 200, 200, 200, 200) }), []string{"tasks over_limit"}},
		"too many dependencies":   {func(s target) { s.Tasks["test"].Depends = make([]run.Depend, 100_001) }, []string{"tasks over_limit"}},
		"several, in their order": {func(s target) { s.Name, s.Group, s.Tasks["test"].Steps = "", "", nil }, []string{"name required", "group required", "tasks.test.steps required"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := valid()
			c.change(s)
			faults := spec.ValidateRun(s)
			require.Equal(t, c.want, found(faults))
			for _, f := range faults {
				require.NotEmpty(t, f.Detail)
				require.NotContains(t, f.Detail, "hunter2")
				require.Less(t, len(f.Detail), 500)
			}
		})
	}
}

func wide(sizes ...int) run.Matrix {
	m := make(map[string][]string)
	for i, n := range sizes {
		for v := range n {
			axis := fmt.Sprintf("A%d", i)
			m[axis] = append(m[axis], fmt.Sprint(v))
		}
	}
	return run.Matrix{Axes: m}
}

func TestValidateRun_TooManyTasks(t *testing.T) {
	t.Parallel()
	s := valid()
	for i := range 9_999 {
		s.Tasks[fmt.Sprintf("t%d", i)] = &run.TaskSpec{}
	}
	require.Equal(t, []string{"tasks over_limit"}, found(spec.ValidateRun(s)))
	require.Contains(t, spec.ValidateRun(s)[0].Detail, "10001 tasks; the limit is 10000")
}

func TestValidateRun_NamesTheCycle(t *testing.T) {
	t.Parallel()
	s := &run.Spec{Name: "n", Group: "/a/b", Tasks: make(map[string]*run.TaskSpec)}
	add := func(name string, depends ...string) {
		task := &run.TaskSpec{Steps: []run.Step{{Run: "true"}}}
		for _, d := range depends {
			task.Depends = append(task.Depends, run.Depend{Task: d})
		}
		s.Tasks[name] = task
	}
	add("a", "b")
	add("b", "d", "c")
	add("c", "a")
	add("d")
	add("e", "b")
	faults := spec.ValidateRun(s)
	require.Equal(t, []string{"tasks.c.depends[0].task cycle"}, found(faults))
	require.Contains(t, faults[0].Detail, "a -> b -> c -> a")

	s.Tasks = make(map[string]*run.TaskSpec)
	for i := range 10_000 {
		add(fmt.Sprintf("t%04d", i), fmt.Sprintf("t%04d", (i+1)%10_000))
	}
	faults = spec.ValidateRun(s)
	require.Len(t, faults, 1)
	require.Contains(t, faults[0].Detail, "t0000 -> t0001 -> t0002 -> t0003 -> t0004 -> t0005 -> ... -> t9995")
}

func TestValidateRun_SuggestsNames(t *testing.T) {
	t.Parallel()
	s := valid()
	s.Tasks["test"].Depends = []run.Depend{{Task: "biuld"}, {Task: "build[GO=1.25]"}}
	faults := spec.ValidateRun(s)
	require.Contains(t, faults[0].Detail, `did you mean "build"?`)
	require.Contains(t, faults[1].Detail, `depend on "build", which is all of its expansion`)
}

func TestValidateRun_BoundsTheFaults(t *testing.T) {
	t.Parallel()
	s := valid()
	for i := range 5000 {
		s.Tasks[fmt.Sprintf("t%d", i)] = &run.TaskSpec{Depends: []run.Depend{{Task: "nowhere"}}}
	}
	faults := spec.ValidateRun(s)
	require.Len(t, faults, run.MaxFaults+1)
	require.Equal(t, run.FaultTooMany, faults[run.MaxFaults].Code)
}

func TestValidateAnnotations(t *testing.T) {
	t.Parallel()
	require.Empty(t, spec.ValidateAnnotations(nil))
	many := make(map[string]string)
	for i := range 101 {
		many[fmt.Sprint(i)] = ""
	}
	require.Equal(t, []string{"annotations over_limit"}, found(spec.ValidateAnnotations(many)))
	require.Equal(t, []string{`annotations[""] required`}, found(spec.ValidateAnnotations(map[string]string{"": ""})))
}

func TestValidateRun_Foreach(t *testing.T) {
	t.Parallel()
	steps := []run.Step{{Run: "x"}}
	s := &run.Spec{Name: "n", Group: "/a/b", Tasks: map[string]*run.TaskSpec{
		"plan":  {Steps: steps},
		"build": {Steps: steps, Foreach: run.Foreach{List: `{{ output "plan" "items" }}`}, Depends: []run.Depend{{Task: "plan"}}},
		"join":  {Steps: steps, Environment: map[string]string{"A": `{{ output "build[17]" "k" }}`}, Depends: []run.Depend{{Task: "build"}}},
	}}
	require.Empty(t, spec.ValidateRun(s))
	x, faults := spec.Expand(s, nil)
	require.Empty(t, faults)
	require.Len(t, x.Tasks, 3)
	require.Equal(t, run.Node{Name: "build", First: 1, Width: 1, Foreach: true, Depends: []run.Edge{{Node: 0}}, Steps: 1}, x.Plan.Nodes[1])

	for _, bad := range []string{"build", "build[x]", "build[01]", "build[5000]", "build[-1]", "build[1"} {
		s.Tasks["join"].Environment["A"] = `{{ output "` + bad + `" "k" }}`
		require.Equal(t, []string{"tasks.join.environment.A bad_value"}, found(spec.ValidateRun(s)), bad)
	}
	delete(s.Tasks, "join")
	for least, want := range map[int][]string{-1: {"tasks.build.foreach.min out_of_range"}, 0: nil, 5000: nil, 5001: {"tasks.build.foreach.min out_of_range"}} {
		s.Tasks["build"].Foreach.Min = least
		require.Equal(t, want, found(spec.ValidateRun(s)), least)
	}
	s.Tasks["build"].Foreach.Min = 1
	s.Tasks["build"].Matrix = run.Matrix{Axes: map[string][]string{"A": {"x"}}}
	s.Tasks["build"].Foreach.List = `{{ output "nan" "items" }}`
	require.Equal(t, []string{"tasks.build.foreach contradiction", "tasks.build.foreach unknown_dependency"}, found(spec.ValidateRun(s)))
}

func TestValidateRun_Outputs(t *testing.T) {
	t.Parallel()
	task := func(env string, depends ...string) *run.TaskSpec {
		out := &run.TaskSpec{Steps: []run.Step{{Run: "x"}}, Environment: map[string]string{"A": env}}
		for _, d := range depends {
			out.Depends = append(out.Depends, run.Depend{Task: d})
		}
		return out
	}
	s := &run.Spec{Name: "n", Group: "/a/b", Tasks: map[string]*run.TaskSpec{
		"a": task(""), "b": task(`{{ output "a" "k" }}`, "a"), "c": task(`{{ output "a" "k" }}{{ output "b" "k" }}`, "b"),
		"m": {Steps: []run.Step{{Run: "x"}}, Matrix: run.Matrix{Axes: map[string][]string{"X": {"1", "2/3"}, "Y": {"z"}}}},
		"n": task(`{{ output "m[X=2-3,Y=z]" "k" }}`, "m"),
	}}
	require.Empty(t, spec.ValidateRun(s))
	for _, c := range []struct{ text, want string }{
		{`{{ output "c" "k" }}`, "tasks.b.environment.A unknown_dependency"},
		{`{{ output "m[X=1,Y=z]" "k" }}`, "tasks.b.environment.A unknown_dependency"},
		{`{{ output "a[0]" "k" }}`, "tasks.b.environment.A bad_value"},
		{`{{ output "a" "-k" }}`, "tasks.b.environment.A bad_format"},
	} {
		s.Tasks["b"] = task(c.text, "a")
		require.Equal(t, []string{c.want}, found(spec.ValidateRun(s)), c.text)
	}
	s.Tasks["b"] = task("", "a")
	for _, name := range []string{"m", "m[X=1]", "m[X=1,Y=y]", "m[X=1,Y=z"} {
		s.Tasks["n"] = task(`{{ output "`+name+`" "k" }}`, "m")
		require.Equal(t, []string{"tasks.n.environment.A bad_value"}, found(spec.ValidateRun(s)), name)
	}
}

// TestValidateRun_output_names checks that the fault of an invalid name
// describes the names that are valid.
func TestValidateRun_output_names(t *testing.T) {
	t.Parallel()
	of := func(key string) []run.Fault {
		s := valid()
		s.Tasks["test"].Depends = []run.Depend{{Task: "plan"}}
		s.Tasks["plan"] = &run.TaskSpec{Steps: []run.Step{{Run: "true"}}}
		s.Tasks["test"].Environment = map[string]string{"A": `{{ output "plan" "` + key + `" }}`}
		return spec.ValidateRun(s)
	}
	require.Empty(t, of("_a-b.1"))
	found := of("1a")
	require.Len(t, found, 1)
	require.Contains(t, found[0].Detail, "beginning with a letter or underscore")
}
