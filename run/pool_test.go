package run_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

func TestChoosePool(t *testing.T) {
	t.Parallel()
	pools := []run.Pool{
		{Name: "shell-b", Driver: "shell", OS: "linux", Arch: "amd64"},
		{Name: "shell-a", Driver: "shell", OS: "darwin", Arch: "arm64", Labels: map[string]string{"rack": "7"}},
		{Name: "docker", Driver: "docker", OS: "linux", Arch: "amd64", Features: []run.Feature{run.FeatureCheckouts}},
		{Name: "zz-default", Driver: "docker", OS: "linux", Arch: "amd64", Default: true, Features: []run.Feature{run.FeatureServices}},
		{Name: "privileged", Driver: "docker", OS: "linux", Arch: "amd64", Privileged: true},
	}
	for name, c := range map[string]struct {
		task run.TaskSpec
		want string
	}{
		"named":                                {run.TaskSpec{Pool: "docker"}, "docker"},
		"named and unknown":                    {run.TaskSpec{Pool: "dock"}, ""},
		"an image":                             {run.TaskSpec{Image: "a"}, "zz-default"},
		"an image, privileged":                 {run.TaskSpec{Image: "a", Privileged: true}, "privileged"},
		"nothing":                              {run.TaskSpec{}, "shell-a"},
		"nothing, privileged":                  {run.TaskSpec{Privileged: true}, "shell-a"},
		"required os":                          {run.TaskSpec{Requires: &run.Requires{OS: "linux"}}, "shell-b"},
		"required os with image":               {run.TaskSpec{Image: "a", Requires: &run.Requires{OS: "linux"}}, "zz-default"},
		"required label":                       {run.TaskSpec{Requires: &run.Requires{Labels: map[string]string{"rack": "7"}}}, "shell-a"},
		"unknown label":                        {run.TaskSpec{Requires: &run.Requires{Labels: map[string]string{"rack": "8"}}}, ""},
		"unknown arch":                         {run.TaskSpec{Requires: &run.Requires{Arch: "riscv64"}}, ""},
		"required driver":                      {run.TaskSpec{Image: "a", Requires: &run.Requires{Driver: "docker", Arch: "amd64"}}, "zz-default"},
		"a checkout":                           {run.TaskSpec{Steps: []run.Step{{Checkout: &run.Checkout{}}}}, "shell-a"},
		"a checkout in a container":            {run.TaskSpec{Image: "a", Steps: []run.Step{{Checkout: &run.Checkout{}}}}, "docker"},
		"no suitable pool, but a matching one": {run.TaskSpec{Requires: &run.Requires{Driver: "docker"}}, "zz-default"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, ok := run.ChoosePool(&c.task, pools)
			require.Equal(t, c.want != "", ok)
			require.Equal(t, c.want, p.Name)
		})
	}
	gpu := &run.TaskSpec{Requires: &run.Requires{Labels: map[string]string{"gpu": "a100", "rack": "7"}}}
	_, ok := run.ChoosePool(gpu, pools)
	require.False(t, ok)
	pools[1].ExecutorLabels = []map[string]string{{"disk": "ssd"}, {"gpu": "a100"}}
	p, ok := run.ChoosePool(gpu, pools)
	require.Equal(t, []any{"shell-a", true}, []any{p.Name, ok}, "an executor has the labels, together with its pool")
	require.Equal(t, map[string]string{"gpu": "a100"}, gpu.ExecutorLabels(p))
	pools[0].Labels = gpu.Requires.Labels
	p, _ = run.ChoosePool(gpu, pools)
	require.Equal(t, "shell-b", p.Name, "a pool that has the labels itself is preferred")
	require.Empty(t, gpu.ExecutorLabels(p))
	pools[0].ExecutorLabels = []map[string]string{{"gpu": "l4"}}
	require.Equal(t, map[string]string{"gpu": "a100"}, gpu.ExecutorLabels(pools[0]), "an executor of the pool differs")
	_, ok = run.ChoosePool(&run.TaskSpec{Image: "a"}, pools[:2])
	require.False(t, ok, "an image needs a container pool")
	_, ok = run.ChoosePool(&run.TaskSpec{}, nil)
	require.False(t, ok)
}

// A task whose services have a network of their own goes to no pool on Kubernetes if there is
// another one, also if the features of executors are not known.
func TestChoosePool_own_network(t *testing.T) {
	t.Parallel()
	task := &run.TaskSpec{Image: "a", ServiceNetwork: run.ServiceNetworkOwn, Services: []run.ServiceSpec{{Image: "a"}}}
	can := []run.Feature{run.FeatureServices, run.FeatureOwnNetworks}
	for _, c := range []struct {
		cluster, host []run.Feature
		want          string
	}{
		{nil, nil, "host"},
		{[]run.Feature{run.FeatureServices}, nil, "host"},
		{nil, can, "host"},
		{can, can, "host"},
		{nil, []run.Feature{run.FeatureServices}, "cluster"}, // CheckPool reports the fault
	} {
		p, ok := run.ChoosePool(task, []run.Pool{
			{Name: "cluster", Driver: run.DriverKubernetes, Default: true, Features: c.cluster}, {Name: "host", Driver: run.DriverDocker, Features: c.host},
		})
		require.True(t, ok)
		require.Equal(t, c.want, p.Name)
	}
	shared := *task
	shared.ServiceNetwork = run.ServiceNetworkShared
	p, _ := run.ChoosePool(&shared, []run.Pool{{Name: "cluster", Driver: run.DriverKubernetes, Default: true}, {Name: "host", Driver: run.DriverDocker}})
	require.Equal(t, "cluster", p.Name)
}

// A task without a pool goes to one that allows its images and pull policy.
func TestChoosePool_images(t *testing.T) {
	t.Parallel()
	only := func(name string, images run.PoolImages) run.Pool {
		return run.Pool{Name: name, Driver: "docker", Images: images}
	}
	pools := []run.Pool{
		only("a", run.PoolImages{Allowed: []string{"alpine"}}), only("b", run.PoolImages{Allowed: []string{"team/*"}, AllowedServices: []string{"postgres"}}),
		only("c", run.PoolImages{Allowed: []string{"alpine", "golang"}, PullPolicies: []run.PullPolicy{run.PullAlways}}),
	}
	pools[0].Default = true
	postgres := []run.ServiceSpec{{Image: "postgres:16"}}
	for name, tt := range map[string]struct {
		task run.TaskSpec
		want string
	}{
		"the default":                 {run.TaskSpec{Image: "alpine:3"}, "a"},
		"another image":               {run.TaskSpec{Image: "team/app"}, "b"},
		"of a step":                   {run.TaskSpec{Image: "alpine", Steps: []run.Step{{Image: "golang"}}}, "c"},
		"of a service":                {run.TaskSpec{Image: "team/app", Services: postgres}, "b"},
		"pull policy":                 {run.TaskSpec{Image: "alpine", PullPolicy: run.PullNever}, "a"},
		"no pool allows it":           {run.TaskSpec{Image: "golang", PullPolicy: run.PullNever}, "a"},
		"no pool allows the services": {run.TaskSpec{Image: "alpine", Services: postgres}, "a"},
		"named":                       {run.TaskSpec{Image: "alpine", Pool: "b"}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, ok := run.ChoosePool(&tt.task, pools)
			require.True(t, ok)
			require.Equal(t, tt.want, p.Name)
		})
	}
}

// A task without a pool goes to one that allows its persistent volumes.
func TestChoosePool_volumes(t *testing.T) {
	t.Parallel()
	pools := []run.Pool{
		{Name: "a", Driver: run.DriverDocker, Default: true, Images: run.PoolImages{Default: "alpine"}},
		{Name: "b", Driver: run.DriverDocker, AllowedVolumes: []string{"npm", "go-*"}, Images: run.PoolImages{Default: "alpine"}},
		{Name: "c", Driver: run.DriverDocker, AllowedVolumes: []string{"maven"}},
		{Name: "shell", Driver: run.DriverShell},
	}
	for _, c := range []struct {
		image   string
		volumes []run.Volume
		want    string
	}{
		{"alpine", nil, "a"},
		{"alpine", []run.Volume{{Path: "/t", Tmpfs: &run.Tmpfs{}}}, "a"},
		{"alpine", []run.Volume{{Path: "/a", Name: "npm"}, {Path: "/b", Name: "go-build"}}, "b"},
		{"", nil, "shell"},
		{"", []run.Volume{{Path: "/a", Name: "npm"}}, "b"},       // with the image of the pool
		{"", []run.Volume{{Path: "/a", Name: "maven"}}, "shell"}, // CheckPool reports the fault: c has no image
		{"alpine", []run.Volume{{Path: "/a", Name: "maven"}}, "c"},
		{"alpine", []run.Volume{{Path: "/a", Name: "npm"}, {Path: "/b", Name: "maven"}}, "a"}, // CheckPool reports the fault
	} {
		p, ok := run.ChoosePool(&run.TaskSpec{Image: c.image, Volumes: c.volumes}, pools)
		require.True(t, ok)
		require.Equal(t, c.want, p.Name, "%v", c.volumes)
	}
}

// A task without an image goes to a pool that runs containers only if no other suits it,
// and then to one with a default image.
func TestChoosePool_default_image(t *testing.T) {
	t.Parallel()
	containers := []run.Pool{
		{Name: "a", Driver: "docker", Default: true},
		{Name: "b", Driver: "docker", Images: run.PoolImages{Default: "alpine"}},
		{Name: "c", Driver: "docker", Privileged: true, Images: run.PoolImages{Default: "alpine"}},
	}
	all := slices.Concat(containers, []run.Pool{{Name: "shell", Driver: "shell"}})
	for name, tt := range map[string]struct {
		task  run.TaskSpec
		pools []run.Pool
		want  string
	}{
		"a shell":          {run.TaskSpec{}, all, "shell"},
		"no shell":         {run.TaskSpec{}, containers, "b"},
		"privileged":       {run.TaskSpec{Privileged: true}, containers, "c"},
		"required driver":  {run.TaskSpec{Requires: &run.Requires{Driver: "docker"}}, all, "b"},
		"with an image":    {run.TaskSpec{Image: "alpine"}, all, "a"},
		"no default image": {run.TaskSpec{}, containers[:1], ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := run.ChoosePool(&tt.task, tt.pools)
			require.Equal(t, tt.want, p.Name)
		})
	}
}

func TestPool_Allows(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string][3]bool{"": {true, true, true}, "/**": {true, true, true}, "/acme/**": {true, true, false}, "/acme/web/**": {true, false, false}, "/acme": {}} {
		p := run.Pool{}
		if pattern != "" {
			p.AllowedGroups = []string{pattern}
		}
		require.Equal(t, want, [3]bool{p.Allows("/acme/web"), p.Allows("/acme/webs/1"), p.Allows("/acmes/web")}, pattern)
	}
}

func TestPool_Allows_fleets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pool   []string
		fleets [][]string
		paths  []string
	}{
		{nil, nil, []string{""}},
		{nil, [][]string{{"/**"}}, []string{""}},
		{nil, [][]string{{"/acme/**", "/other/**"}}, []string{"/acme", "/other"}},
		{nil, [][]string{{"/acme/**", "/other/**"}, {"/acme/web/**", "/third/**"}}, []string{"/acme/web"}},
		{[]string{"/acme/**"}, [][]string{{"/**"}}, []string{"/acme"}},
		{[]string{"/acme/**"}, [][]string{{"/acme/web/**", "/acme/db/**"}}, []string{"/acme/db", "/acme/web"}},
		{[]string{"/acme/**"}, [][]string{{"/other/**"}}, nil},
		{[]string{"/acme/**"}, [][]string{{"/acmes/**"}}, nil},
		{[]string{"/acme"}, nil, nil},
		{nil, [][]string{{"/acme/**"}, {"/other/**"}}, nil},
	} {
		p := run.Pool{AllowedGroups: tt.pool}
		for _, patterns := range tt.fleets {
			p.FleetGroups = append(p.FleetGroups, run.FleetGroups{Fleet: "f", AllowedGroups: patterns})
		}
		require.Equal(t, tt.paths, p.GroupPaths(), "%+v", tt)
		for _, group := range []string{"/acme", "/acme/web", "/acme/web/1", "/acme/db", "/acmes/web", "/other/x", "/third"} {
			want := slices.ContainsFunc(tt.paths, func(path string) bool { return run.GroupWithin(group, path) })
			require.Equal(t, want, p.Allows(group), "%s: %+v", group, tt)
		}
	}
}

func TestPool_AddFeatures(t *testing.T) {
	t.Parallel()
	const a, b, c = run.FeatureCheckouts, run.FeatureServices, run.FeatureUsers
	for name, tt := range map[string]struct {
		executors  [][]run.Feature
		want       []run.Feature
		lacks, has []run.Feature
	}{
		"no executor":              {nil, nil, nil, []run.Feature{a, b}},
		"one that reports none":    {[][]run.Feature{{a}, nil}, nil, nil, []run.Feature{a, b}},
		"one without any":          {[][]run.Feature{{}}, []run.Feature{}, []run.Feature{a, b}, nil},
		"the features of them all": {[][]run.Feature{{b, c}, {a, b}}, []run.Feature{a, b, c}, []run.Feature{run.FeatureTmpfs}, []run.Feature{a, b, c}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p run.Pool
			p.AddFeatures(tt.executors)
			require.Equal(t, tt.want, p.Features)
			for _, f := range tt.lacks {
				require.True(t, p.Lacks(f), f)
			}
			for _, f := range tt.has {
				require.False(t, p.Lacks(f), f)
			}
		})
	}
}
