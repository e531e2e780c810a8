package docker_test

import (
	"crypto/rand"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

func TestDriver_pull(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	registry := testenv.NewRegistry(t, b.cli)
	def := b.definition(t, "echo fetched $FETCHED")
	def.Image, def.PullPolicy = registry.Image(), run.PullIfNotPresent
	start := func(log *setupLog) (executor.Handle, error) {
		def.Key = b.definition(t).Key
		return b.driver.Start(t.Context(), executor.Task{Definition: def, Log: log.add, Launch: launchAt(1)})
	}
	refused := func(wants ...string) {
		t.Helper()
		_, err := start(new(setupLog))
		require.Equal(t, run.CodeInvalid, run.CodeOf(err))
		for _, want := range wants {
			require.ErrorContains(t, err, want)
		}
		b.requireNothingLeft(t)
	}
	done := func() string {
		t.Helper()
		var log setupLog
		h, err := start(&log)
		require.NoError(t, err)
		require.Equal(t, "fetched yes\n", follow(t, h, 1).output)
		require.NoError(t, h.Remove(t.Context()))
		return log.String()
	}

	def.PullPolicy = run.PullNever
	refused(registry.Image(), "pull policy is never")
	def.PullPolicy = run.PullIfNotPresent
	refused("image pull failed: ", "no basic auth credentials")
	def.Auth = map[string]run.Auth{registry.Host: {Username: testenv.RegistryUser, Password: "wrong"}}
	refused("image pull failed: ")
	require.Zero(t, registry.Pulls())

	def.Auth[registry.Host] = run.Auth{Username: testenv.RegistryUser, Password: registry.Password}
	require.Regexp(t, `^pulling image \S+/private/tool:1\npulled image \S+/private/tool:1 \(.* in .*s\)$`, done())
	b.removeImageAfter(t, registry.Image())
	pulls := registry.Pulls()
	require.Positive(t, pulls)
	require.Contains(t, done(), "which is present")
	require.Equal(t, pulls, registry.Pulls())

	def.PullPolicy = run.PullAlways
	require.Contains(t, done(), "pulled image")
	require.Greater(t, registry.Pulls(), pulls)
	def.Image = registry.Host + "/private/tool:2"
	refused("image pull failed: ", "tool:2")
	def.Image = "127.0.0.1:1/no/registry:1"
	refused("image pull failed: ")
}

// TestDriver_image_rewrites pulls the images of a task and its service from a mirror, with
// the credentials of the pool.
func TestDriver_image_rewrites(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	registry := testenv.NewRegistry(t, b.cli)
	def := b.definition(t, "echo fetched $FETCHED")
	def.Image, def.PullPolicy = "registry.example.com/tool:1", run.PullIfNotPresent
	def.Services = []run.ServiceSpec{{Name: "other", Image: "registry.example.com/tool:1", Command: []string{"sleep", "300"}}}
	run.Pool{Images: run.PoolImages{
		Rewrites:   map[string]string{"registry.example.com": registry.Host + "/private"},
		Registries: map[string]run.PoolRegistry{registry.Host: {Username: testenv.RegistryUser}},
	}}.Define(&def)
	def.SupplyPool(map[string]run.Secret{registry.Host: run.Secret(registry.Password)})
	var log setupLog
	h, err := b.driver.Start(t.Context(), executor.Task{Definition: def, Log: log.add, Launch: launchAt(1)})
	b.removeImageAfter(t, registry.Image())
	require.NoError(t, err)
	require.Equal(t, "fetched yes\n", follow(t, h, 1).output)
	require.NoError(t, h.Remove(t.Context()))
	require.Contains(t, log.String(), "pulled image "+registry.Image())
	require.NotContains(t, log.String(), "registry.example.com")
	require.NotContains(t, log.String(), registry.Password)
	b.requireNothingLeft(t)
}

// TestDriver_image_of_another_run runs a task with an image that another run
// pulled with its own credentials.
func TestDriver_image_of_another_run(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	registry := testenv.NewRegistry(t, b.cli)
	start := func(shared bool, policy run.PullPolicy, password string) error {
		def := b.definition(t, "echo fetched $FETCHED")
		def.Image, def.PullPolicy = registry.Image(), policy
		if password != "" {
			def.Auth = map[string]run.Auth{registry.Host: {Username: testenv.RegistryUser, Password: password}}
		}
		run.Pool{Shared: shared}.Define(&def)
		h, err := b.driver.Start(t.Context(), executor.Task{Definition: def, Log: new(setupLog).add, Launch: launchAt(1)})
		if err != nil {
			return err
		}
		require.Equal(t, "fetched yes\n", follow(t, h, 1).output)
		return h.Remove(t.Context())
	}
	require.NoError(t, start(true, run.PullIfNotPresent, registry.Password))
	b.removeImageAfter(t, registry.Image())
	for _, policy := range []run.PullPolicy{run.PullIfNotPresent, run.PullNever} {
		require.NoError(t, start(false, policy, ""), "runs of a pool that is not shared use what is present")
		require.ErrorContains(t, start(true, policy, ""), "image pull failed")
		require.ErrorContains(t, start(true, policy, rand.Text()), "image pull failed")
		require.NoError(t, start(true, policy, registry.Password))
	}
	b.requireNothingLeft(t)
}
