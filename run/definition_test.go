package run_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// TestDefinition_Supply checks that secrets of providers are used like those of
// the run.
func TestDefinition_Supply(t *testing.T) {
	t.Parallel()
	header := &run.Spec{
		Environment: map[string]string{"A": "plain"}, Secrets: map[string]run.Secret{"S": "inlined"},
		SecretsFrom: map[string]run.SecretRef{"A": {Provider: "p", Name: "a"}, "B": {Provider: "p", Name: "b"}},
		Registries:  map[string]run.Registry{"own": {Username: "u", PasswordSecret: "S"}, "other": {Username: "v", PasswordSecret: "B"}},
	}
	d := run.Define(header, &run.TaskSpec{Steps: []run.Step{{Run: "true"}}}, run.ExpandedTask{Name: "t"}, run.Key{Run: "r", Attempt: 1, Dispatch: 1}, 1)
	require.Equal(t, []string{"inlined"}, d.Secrets)
	require.True(t, d.ProviderSecrets)
	d.Supply(map[string]run.Secret{"A": "over the plain one", "B": "line one\nline two"})
	require.Equal(t, "over the plain one", d.Environment["A"])
	require.Equal(t, "line one\nline two", d.Environment["B"])
	require.Equal(t, []string{"over the plain one", "line one\nline two", "line one", "line two", "inlined"}, d.Secrets)
	require.Equal(t, map[string]run.Auth{"own": {Username: "u", Password: "inlined"}, "other": {Username: "v", Password: "line one\nline two"}}, d.Auth)
}

// The credentials of a pool are for registries for which the run has none, and reach no
// step.
func TestDefinition_SupplyPool(t *testing.T) {
	t.Parallel()
	images := run.PoolImages{Registries: map[string]run.PoolRegistry{
		"docker.io": {Username: "hub"}, "ghcr.io": {Username: "pool"}, "quay.io": {Username: "pool"},
	}}
	task := &run.TaskSpec{Image: "alpine", Steps: []run.Step{{Run: "true", Image: "ghcr.io/a"}}, Services: []run.ServiceSpec{{Image: "quay.io/a"}}}
	define := func(header *run.Spec) run.Definition {
		d := run.Define(header, task, run.ExpandedTask{Name: "t"}, run.Key{Run: "r", Attempt: 1, Dispatch: 1}, 1)
		run.Pool{Driver: run.DriverDocker, Images: images}.Define(&d)
		return d
	}
	d := define(&run.Spec{
		Secrets: map[string]run.Secret{"S": "inlined"}, SecretsFrom: map[string]run.SecretRef{"P": {Provider: "p", Name: "n"}},
		Registries: map[string]run.Registry{"registry-1.docker.io": {Username: "run", PasswordSecret: "S"}, "ghcr.io": {Username: "run", PasswordSecret: "P"}},
	})
	require.Equal(t, map[string]run.PoolRegistry{"quay.io": {Username: "pool"}}, d.PoolRegistries)
	for _, host := range []string{"docker.io", "docker.io:443", "Index.docker.io", "registry-1.docker.io:443"} {
		d := define(&run.Spec{Registries: map[string]run.Registry{host: {Username: "run"}}})
		require.NotContains(t, d.PoolRegistries, "docker.io", host)
	}
	d.Supply(map[string]run.Secret{"P": "of a provider"})
	d.SupplyPool(map[string]run.Secret{"quay.io": "of the pool"})
	require.Equal(t, map[string]run.Auth{
		"docker.io": {Username: "run", Password: "inlined"}, "ghcr.io": {Username: "run", Password: "of a provider"}, "quay.io": {Username: "pool", Password: "of the pool"},
	}, d.Auth)
	require.Equal(t, []string{"of a provider", "inlined"}, d.Secrets)
	require.Equal(t, []string{"of a provider", "of the pool", "inlined"}, d.Hidden())

	d = define(&run.Spec{})
	require.Len(t, images.Registries, 3, "the pool keeps them")
	d.SupplyPool(map[string]run.Secret{"ghcr.io": "of the pool"})
	require.Equal(t, map[string]run.Auth{"ghcr.io": {Username: "pool", Password: "of the pool"}}, d.Auth)
	require.Empty(t, d.Secrets)
}

// Executors get only the credentials for hosts whose images they may pull.
func TestPool_Define_registries(t *testing.T) {
	t.Parallel()
	images := run.PoolImages{
		Rewrites:   map[string]string{"docker.io": "mirror.example.com/hub"},
		Registries: map[string]run.PoolRegistry{"docker.io": {}, "ghcr.io": {}, "mirror.example.com": {}, "quay.io": {}, "registry.example.com": {}},
	}
	hosts := func(driver string, steps ...run.StepDef) []string {
		d := run.Definition{Image: "alpine", Services: []run.ServiceSpec{{Image: "quay.io/a"}}, Steps: steps}
		run.Pool{Driver: driver, Images: images}.Define(&d)
		return slices.Sorted(maps.Keys(d.PoolRegistries))
	}
	all := slices.Sorted(maps.Keys(images.Registries))
	checkout := run.StepDef{Checkout: &run.Checkout{}}
	require.Equal(t, []string{"mirror.example.com", "quay.io"}, hosts(run.DriverDocker))
	require.Equal(t, []string{"ghcr.io", "mirror.example.com", "quay.io"}, hosts(run.DriverDocker, run.StepDef{Image: "ghcr.io/a/b:1"}))
	require.Equal(t, all, hosts(run.DriverDocker, checkout), "its image may be one of the executor")
	require.Equal(t, all, hosts(run.DriverKubernetes), "its pods have images of the executor")
	checkout.Image = "ghcr.io/git"
	require.Equal(t, []string{"ghcr.io", "mirror.example.com", "quay.io"}, hosts(run.DriverDocker, checkout))
}

// The secret DOCKER_AUTH_CONFIG has credentials for registries, after those of the run and
// before those of the pool.
func TestDefinition_docker_auth(t *testing.T) {
	t.Parallel()
	define := func(header *run.Spec, image string) run.Definition {
		return run.Define(header, &run.TaskSpec{Image: image, Steps: []run.Step{{Run: "true"}}, Services: []run.ServiceSpec{{Image: "quay.io/a"}}}, run.ExpandedTask{Name: "t"}, run.Key{Run: "r", Attempt: 1, Dispatch: 1}, 1)
	}
	config := func(value string) *run.Spec {
		return &run.Spec{Secrets: map[string]run.Secret{run.DockerAuthConfig: run.Secret(value)}}
	}
	const hub, ghcr = `"https://index.docker.io/v1/": {"auth": "aHViOmh1YjpwYXNzd29yZA=="}`, `"ghcr.io": {"username": "u", "password": "ghcr password", "email": "x"}`
	want := map[string]run.Auth{"docker.io": {Username: "hub", Password: "hub:password"}, "ghcr.io": {Username: "u", Password: "ghcr password"}}
	for value, auth := range map[string]map[string]run.Auth{
		`{"auths": {` + hub + `, ` + ghcr + `}, "credsStore": "x"}`:                                                                                  want,
		`{"auths": {` + hub + `, ` + ghcr + `, "ghcr.io/team": {"username": "v", "password": "w"}, "quay.io": {"identitytoken": "x"}, "other": {}}}`: want,
		`{"auths": {"localhost:5000": {"auth": "dTo="}}}`:                                                                                            {"localhost:5000": {Username: "u"}},
		`{"auths": {"ghcr.io": {"username": "u", "password": "ghcr password"}, "docker.io": {"auth": "aHViOmh1YjpwYXNzd29yZAAA"}}}`:                  want,
		`{"auths": {}}`: nil,
		``:              nil, " \n": nil,
	} {
		d := define(config(value), "alpine")
		require.Empty(t, d.Fault, value)
		require.Equal(t, auth, d.Auth, value)
		if strings.TrimSpace(value) != "" {
			require.Contains(t, d.Secrets, value)
		}
		for _, a := range auth {
			if a.Password != "" {
				require.Contains(t, d.Secrets, a.Password)
				require.Contains(t, define(config(value), "").Secrets, a.Password, "steps can decode it in tasks without images too")
			}
		}
	}
	for value, fault := range map[string]string{
		`"hush"`: "is not JSON", `{"auths": {"ghcr.io": "hush"}}`: "is not JSON", `{"auths": {"ghcr.io": {"auth": "hush"}}}`: "for ghcr.io that are not user:password",
		`{"auths": {"ghcr.io": {"auth": "aHVzaA=="}}}`:         "not user:password in base64",
		`{"auths": {"https://u:hush@ghcr.io": {"auth": "x"}}}`: "for a path that are not user:password",
	} {
		d := define(config(value), "alpine")
		require.Contains(t, d.Fault, fault)
		require.NotContains(t, d.Fault, "hush")
		require.Empty(t, define(config(value), "").Fault, "tasks without images pull none")
	}

	// What pulls do not use is masked all the same.
	unused := define(config(`{"auths": {"ghcr.io": {"auth": "MDAwMDAwMDA6", "identitytoken": "an identity token"}, "ghcr.io/team": {"auth": "dTpvZiBhIHBhdGg="},
		"docker.io": {"username": "u", "password": "the first"}, "index.docker.io": {"username": "u", "password": "the second"},
		"quay.io": {"registrytoken": "a registry token", "auth": "x"}, "localhost:5000": {"password": "without a user"}}}`), "alpine")
	require.Empty(t, unused.Fault)
	require.Equal(t, map[string]run.Auth{"docker.io": {Username: "u", Password: "the first"}}, unused.Auth, "an empty password beside a token is none")
	require.Subset(t, unused.Secrets, []string{
		"an identity token", "of a path", "dTpvZiBhIHBhdGg=", "the first", "the second", "a registry token", "without a user",
	})

	for host, key := range map[string]string{
		"registry-1.docker.io": "https://index.docker.io/v1/", "docker.io": "registry-1.docker.io", "index.docker.io": "docker.io:443", "ghcr.io": "GHCR.io", "GHCR.io": "ghcr.io",
	} {
		header := config(`{"auths": {"` + key + `": {"username": "u", "password": "p"}}}`)
		header.Registries = map[string]run.Registry{host: {Username: "run", PasswordSecret: "S"}}
		one := "docker.io"
		if !strings.Contains(host, "docker") {
			one = "ghcr.io"
		}
		require.Equal(t, map[string]run.Auth{one: {Username: "run"}}, define(header, "alpine").Auth)
	}

	header := &run.Spec{
		Secrets: map[string]run.Secret{"S": "inlined"}, SecretsFrom: map[string]run.SecretRef{run.DockerAuthConfig: {Provider: "p", Name: "n"}},
		Registries: map[string]run.Registry{"ghcr.io": {Username: "run", PasswordSecret: "S"}},
	}
	d := define(header, "alpine")
	run.Pool{Driver: run.DriverDocker, Images: run.PoolImages{Registries: map[string]run.PoolRegistry{"docker.io": {Username: "pool"}, "quay.io": {Username: "pool"}}}}.Define(&d)
	d.Supply(map[string]run.Secret{run.DockerAuthConfig: `{"auths": {` + hub + `, ` + ghcr + `}}`})
	d.SupplyPool(map[string]run.Secret{"docker.io": "of the pool", "quay.io": "of the pool"})
	require.Equal(t, map[string]run.Auth{
		"docker.io": want["docker.io"], "ghcr.io": {Username: "run", Password: "inlined"}, "quay.io": {Username: "pool", Password: "of the pool"},
	}, d.Auth)
}

// TestDefine_untrusted checks that an untrusted run gets no secrets of
// providers, also if an older version stored the run before submissions were
// checked.
func TestDefine_untrusted(t *testing.T) {
	t.Parallel()
	header := &run.Spec{Untrusted: true, SecretsFrom: map[string]run.SecretRef{"A": {Provider: "p", Name: "a"}}}
	d := run.Define(header, &run.TaskSpec{Steps: []run.Step{{Run: "true"}}}, run.ExpandedTask{Name: "t"}, run.Key{Run: "r", Attempt: 1, Dispatch: 1}, 1)
	require.Contains(t, d.Fault, "untrusted")
	header.Untrusted = false
	d = run.Define(header, &run.TaskSpec{Steps: []run.Step{{Run: "true"}}}, run.ExpandedTask{Name: "t"}, run.Key{Run: "r", Attempt: 1, Dispatch: 1}, 1)
	require.Empty(t, d.Fault)
}

// TestDefinition_secret_files checks that secrets that are files are not in the
// environment.
func TestDefinition_secret_files(t *testing.T) {
	t.Parallel()
	header := &run.Spec{
		Environment: map[string]string{"A": "plain", "S": "plain"}, Secrets: map[string]run.Secret{"S": "inlined", "V": "variable"},
		SecretsFrom: map[string]run.SecretRef{"A": {Provider: "p", Name: "a"}, "B": {Provider: "p", Name: "b"}},
		SecretFiles: []string{"S", "A"},
	}
	d := run.Define(header, &run.TaskSpec{Steps: []run.Step{{Run: "true"}}}, run.ExpandedTask{Name: "t"}, run.Key{Run: "r", Attempt: 1, Dispatch: 1}, 1)
	d.Supply(map[string]run.Secret{"A": "supplied", "B": "another"})
	require.Equal(t, map[string]string{"S": "inlined", "A": "supplied"}, d.SecretFiles)
	require.NotContains(t, d.Environment, "S")
	require.NotContains(t, d.Environment, "A")
	require.Equal(t, "variable", d.Environment["V"])
	require.Equal(t, "another", d.Environment["B"])
	require.ElementsMatch(t, []string{"inlined", "variable", "supplied", "another"}, d.Secrets, "all are masked")
}

// TestRequiredSpecVersion checks which version of the specification a task needs.
func TestRequiredSpecVersion(t *testing.T) {
	t.Parallel()
	plain := run.Definition{Steps: []run.StepDef{{Script: "true"}}}
	archives := run.Definition{Steps: []run.StepDef{{Script: "true"}, {ArchiveStep: run.ArchiveStep{RestoreWorkspace: &run.RestoreWorkspace{}}}}}
	files := run.Definition{Steps: plain.Steps, SecretFiles: map[string]string{"A": ""}}
	onStop := run.Definition{Steps: []run.StepDef{{Script: "true"}, {Script: "true", When: run.WhenOnStop}}}
	bounded := run.Definition{Steps: plain.Steps, CleanupTimeout: time.Minute}
	always := run.Definition{Steps: []run.StepDef{{Script: "true", When: run.WhenAlways}}}
	for name, tt := range map[string]struct {
		d       run.Definition
		version int
	}{
		"scripts": {plain, 1}, "archives": {archives, 2}, "secret files": {files, 3},
		"on stop": {onStop, 4}, "cleanup timeout": {bounded, 4}, "always": {always, 1},
		"network": {run.Definition{Steps: plain.Steps, ServiceNetwork: run.ServiceNetworkOwn}, 6},
	} {
		require.Equal(t, tt.version, run.RequiredSpecVersion(&tt.d), name)
		require.NoError(t, run.CheckSpecVersion(&tt.d, run.NewestSpecVersion), name)
		for specVersion := range tt.version {
			err := run.CheckSpecVersion(&tt.d, specVersion)
			if tt.version == 1 {
				require.NoError(t, err, "an executor that does not report its version runs scripts")
			} else {
				require.Equal(t, run.CodeConflict, run.CodeOf(err), name)
			}
		}
	}
}

// A step's streams override those of its task; archive steps have no output to read.
func TestDefine_streams(t *testing.T) {
	t.Parallel()
	task := &run.TaskSpec{Streams: run.StreamsSplit, Steps: []run.Step{
		{Run: "true"},
		{Run: "true", Streams: run.StreamsMerged},
		{ArchiveStep: run.ArchiveStep{RestoreWorkspace: &run.RestoreWorkspace{}}},
	}}
	var got []run.Streams
	for _, s := range run.Define(&run.Spec{}, task, run.ExpandedTask{}, run.Key{}, 1).Steps {
		got = append(got, s.Streams)
	}
	require.Equal(t, []run.Streams{run.StreamsSplit, run.StreamsMerged, ""}, got)
}

func TestDefine(t *testing.T) {
	t.Parallel()
	header := &run.Spec{
		Name: "n", Group: "/a/b",
		Environment: map[string]string{"R": "run", "T": "run", "X": "run", "S": "run"},
		Secrets: map[string]run.Secret{
			"S": "secret", "PEM": "-----BEGIN\nabc  \n\n}\n-----END\n", "SHORT": "ab", "SPACED": " padded ", "SAME": "secret",
		},
		Registries: map[string]run.Registry{"ghcr.io": {Username: "u", PasswordSecret: "S"}},
	}
	task := &run.TaskSpec{
		Image: "x", Environment: map[string]string{"T": "task", "X": "task", "S": "task"}, Timeout: 5,
		Steps: []run.Step{{Name: "one", Run: "true", Environment: map[string]string{"Z": "step"}, Timeout: 3}, {Run: "false", When: run.WhenAlways}},
	}
	x := run.ExpandedTask{Name: "build[X=axis]", Spec: "build", Axis: map[string]string{"X": "axis", "S": "axis"}}
	key := run.Key{Run: "01k0000000000000000000000a", Task: 3, Attempt: 2, Dispatch: 1}
	d := run.Define(header, task, x, key, 17)
	require.Equal(t, run.Definition{
		Key: key, RunName: "n", RunGroup: "/a/b", RunCounter: 17, Task: "build[X=axis]", Image: "x", PullPolicy: run.PullIfNotPresent,
		Auth: map[string]run.Auth{"ghcr.io": {Username: "u", Password: "secret"}}, Shell: []string{"/bin/sh", "-e"},
		Environment: map[string]string{
			"R": "run", "T": "task", "X": "axis", "S": "secret", "PEM": "-----BEGIN\nabc  \n\n}\n-----END\n", "SHORT": "ab",
			"SPACED": " padded ", "SAME": "secret",
			"DROVER_RUN_ID": "01k0000000000000000000000a", "DROVER_RUN_COUNTER": "17", "DROVER_RUN_GROUP": "/a/b",
			"DROVER_TASK_NAME": "build[X=axis]", "DROVER_TASK_ATTEMPT": "2",
		},
		Secrets: []string{"-----BEGIN\nabc  \n\n}\n-----END\n", "-----BEGIN", " padded ", "-----END", "padded", "secret", "abc"},
		Steps: []run.StepDef{
			{Name: "one", Script: "true", Environment: map[string]string{"Z": "step"}, Timeout: 3, When: run.WhenOnSuccess},
			{Script: "false", When: run.WhenAlways},
		},
		Timeout: 5, Grace: run.StopGrace,
	}, d)
	require.Equal(t, "run", header.Environment["X"], "the specification is unchanged")
}
