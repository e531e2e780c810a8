package engine_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/engine"
	"github.com/drover-run/drover/internal/secrets"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// The executor of a task gets the credentials of the pool, and its steps do not. Runs
// cannot use the provider that has them, and get no details of it.
func TestPoolRegistries(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	file := filepath.Join(t.TempDir(), "providers.yaml")
	require.NoError(t, os.WriteFile(file, []byte("providers: {env: {type: env, prefix: CI_, groups: [/a]}, pull: {type: env, prefix: PULL_, pools: true}}"), 0o600))
	variables := map[string]string{"PULL_MIRROR": "of the pool", "CI_TOKEN": "of the run"}
	providers, err := secrets.Open(file, func(name string) (string, bool) { value, ok := variables[name]; return value, ok }, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	e := engine.New(engine.Deps{Store: b.store, Logs: b.blobs, Logger: slog.New(slog.DiscardHandler), Secrets: providers})
	_, err = e.Register(t.Context(), run.Executor{ID: "host-2", Pool: "docker", Driver: run.DriverDocker, OS: "linux", Arch: "amd64", Slots: 10, JournalID: "j2"})
	require.NoError(t, err)
	put := func(ref run.SecretRef) error {
		_, _, err := e.PutPool(t.Context(), run.Pool{Name: "docker", Driver: run.DriverDocker, Images: run.PoolImages{
			Registries: map[string]run.PoolRegistry{
				"mirror.example.com": {Username: "puller", PasswordFrom: ref}, "ghcr.io": {Username: "puller", PasswordFrom: run.SecretRef{Provider: "pull", Name: "NONE"}},
			},
		}})
		return err
	}
	faults := func(err error) []run.Fault {
		t.Helper()
		var refused *run.Error
		require.ErrorAs(t, err, &refused)
		return refused.Faults
	}
	step := run.Step{Run: "true"}
	claim := func(group string) run.Definition {
		t.Helper()
		of := &run.Spec{
			Name: "n", Group: group, SecretsFrom: map[string]run.SecretRef{"TOKEN": {Provider: "env", Name: "TOKEN"}},
			Tasks: map[string]*run.TaskSpec{"a": {Image: "mirror.example.com/a", Pool: "docker", Steps: []run.Step{step}}},
		}
		if group != "/a/b" {
			of.SecretsFrom = nil
		}
		x, faults := spec.Expand(of, func(string, *run.TaskSpec) (string, error) { return "docker", nil })
		require.Empty(t, faults)
		r, err := b.store.CreateRun(t.Context(), records.NewRun{Spec: of, Plan: x.Plan, Tasks: x.Tasks})
		require.NoError(t, err)
		_, err = b.store.Begin(t.Context(), r.ID)
		require.NoError(t, err)
		_, _, err = b.store.Apply(t.Context(), r.ID, records.Changes{Tasks: []run.TaskChange{{Attempt: 1, Dispatch: 1, Status: run.StatusQueued}}})
		require.NoError(t, err)
		key := run.Key{Run: r.ID, Attempt: 1, Dispatch: 1}
		d, err := e.Claim(t.Context(), run.ClaimRequest{Key: key, Executor: "host-2", JournalID: "j2", SpecVersion: run.NewestSpecVersion})
		require.NoError(t, err)
		return d
	}

	for ref, detail := range map[run.SecretRef]string{
		{Provider: "vault", Name: "MIRROR"}:          `there is no provider of secrets named "vault"; there are pull`,
		{Provider: "env", Name: "MIRROR"}:            "the provider env is for runs",
		{Provider: "pull", Name: "MIRROR", Key: "k"}: "has no keys",
	} {
		found := faults(put(ref))
		require.Len(t, found, 1)
		require.Equal(t, []any{"registries.mirror.example.com.password_from", run.FaultUnknownSecret}, []any{found[0].Path, found[0].Code})
		require.Contains(t, found[0].Detail, detail)
	}

	require.NoError(t, put(run.SecretRef{Provider: "pull", Name: "MIRROR"}))
	d := claim("/a/b")
	require.Empty(t, d.Fault)
	require.Equal(t, map[string]run.Auth{"mirror.example.com": {Username: "puller", Password: "of the pool"}}, d.Auth)
	require.Equal(t, []string{"of the run"}, d.Secrets)
	require.Equal(t, "of the run", d.Environment["TOKEN"])
	for name, value := range d.Environment {
		require.NotContains(t, name+value, "of the pool")
	}
	require.Equal(t, d.Auth, claim("/b").Auth, "they are for runs of all groups")
	step = run.Step{Checkout: &run.Checkout{Repository: "https://git.example.com/a"}}
	d = claim("/b")
	require.Empty(t, d.Fault, "the executor's image for checkouts may need ghcr.io or not")
	require.Contains(t, d.Auth, "mirror.example.com")
	step = run.Step{Run: "true", Image: "ghcr.io/a"}
	require.Equal(t, "the pool's credentials for ghcr.io are not available: not_found", claim("/b").Fault)
	step = run.Step{Run: "true"}
	_, err = e.Create(t.Context(), run.CreateRequest{Spec: &run.Spec{
		Name: "n", Group: "/a/b", SecretsFrom: map[string]run.SecretRef{"P": {Provider: "pull", Name: "MIRROR"}},
		Tasks: map[string]*run.TaskSpec{"a": {Image: "mirror.example.com/a", Pool: "docker", Steps: []run.Step{{Run: "true"}}}},
	}})
	require.Equal(t, "secrets_from.P", faults(err)[0].Path)

	delete(variables, "PULL_MIRROR")
	require.Equal(t, "the pool's credentials for mirror.example.com are not available: not_found", claim("/a/b").Fault)
}
