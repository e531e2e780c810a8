package engine_test

import (
	"bytes"
	"context"
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

// poolBench has a pool docker with an executor, whose registries use the provider pull. The
// other provider is for runs of /a.
type poolBench struct {
	bench

	variables map[string]string // which both read
	providers *secrets.Set
}

func newPoolBench(t *testing.T) poolBench {
	t.Helper()
	b := poolBench{bench: newBench(t), variables: map[string]string{"PULL_MIRROR": "of the pool", "CI_TOKEN": "of the run"}}
	file := filepath.Join(t.TempDir(), "providers.yaml")
	require.NoError(t, os.WriteFile(file, []byte("providers: {env: {type: env, prefix: CI_, groups: [/a]}, pull: {type: env, prefix: PULL_, pools: true}}"), 0o600))
	var err error
	b.providers, err = secrets.Open(file, func(name string) (string, bool) { value, ok := b.variables[name]; return value, ok }, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	_, err = b.Register(t.Context(), run.Executor{ID: "host-2", Pool: "docker", Driver: run.DriverDocker, OS: "linux", Arch: "amd64", Slots: 10, JournalID: "j2"})
	require.NoError(t, err)
	return b
}

func (b poolBench) engine(providers engine.Secrets, log slog.Handler) *engine.Engine {
	return engine.New(engine.Deps{Store: b.store, Logs: b.blobs, Logger: slog.New(log), Secrets: providers})
}

// put gives the pool credentials for two registries; ghcr.io has no password.
func (b poolBench) put(mirror run.SecretRef) error {
	_, _, err := b.engine(b.providers, slog.DiscardHandler).PutPool(context.Background(), run.Pool{Name: "docker", Driver: run.DriverDocker, Images: run.PoolImages{
		Registries: map[string]run.PoolRegistry{
			"mirror.example.com": {Username: "puller", PasswordFrom: mirror}, "ghcr.io": {Username: "puller", PasswordFrom: run.SecretRef{Provider: "pull", Name: "NONE"}},
		},
	}})
	return err
}

// claim claims the task of a new run, whose image is at mirror.example.com.
func (b poolBench) claim(t *testing.T, providers engine.Secrets, log *bytes.Buffer, group string, step run.Step) (run.Definition, error) {
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
	return b.engine(providers, slog.NewTextHandler(log, nil)).Claim(t.Context(), run.ClaimRequest{
		Key: run.Key{Run: r.ID, Attempt: 1, Dispatch: 1}, Executor: "host-2", JournalID: "j2", SpecVersion: run.NewestSpecVersion,
	})
}

// The executor of a task gets the credentials of the pool, and its steps do not. Runs
// cannot use the provider that has them, and get no details of it.
func TestPoolRegistries(t *testing.T) {
	t.Parallel()
	b := newPoolBench(t)
	claim := func(group string, step run.Step) run.Definition {
		t.Helper()
		d, err := b.claim(t, b.providers, new(bytes.Buffer), group, step)
		require.NoError(t, err)
		return d
	}
	faults := func(err error) []run.Fault {
		t.Helper()
		var refused *run.Error
		require.ErrorAs(t, err, &refused)
		return refused.Faults
	}
	for ref, detail := range map[run.SecretRef]string{
		{Provider: "vault", Name: "MIRROR"}:          `there is no provider of secrets named "vault"; there are pull`,
		{Provider: "env", Name: "MIRROR"}:            "the provider env is for runs",
		{Provider: "pull", Name: "MIRROR", Key: "k"}: "has no keys",
	} {
		found := faults(b.put(ref))
		require.Len(t, found, 1)
		require.Equal(t, []any{"registries.mirror.example.com.password_from", run.FaultUnknownSecret}, []any{found[0].Path, found[0].Code})
		require.Contains(t, found[0].Detail, detail)
	}

	require.NoError(t, b.put(run.SecretRef{Provider: "pull", Name: "MIRROR"}))
	plain := run.Step{Run: "true"}
	d := claim("/a/b", plain)
	require.Empty(t, d.Fault)
	require.Equal(t, map[string]run.Auth{"mirror.example.com": {Username: "puller", Password: "of the pool"}}, d.Auth)
	require.Equal(t, []string{"of the run"}, d.Secrets)
	require.Equal(t, "of the run", d.Environment["TOKEN"])
	for name, value := range d.Environment {
		require.NotContains(t, name+value, "of the pool")
	}
	require.Equal(t, d.Auth, claim("/b", plain).Auth, "they are for runs of all groups")
	d = claim("/b", run.Step{Checkout: &run.Checkout{Repository: "https://git.example.com/a"}})
	require.Empty(t, d.Fault, "the executor's image for checkouts may need ghcr.io or not")
	require.Contains(t, d.Auth, "mirror.example.com")
	require.Equal(t, "the pool's credentials for ghcr.io are not available: not_found", claim("/b", run.Step{Run: "true", Image: "ghcr.io/a"}).Fault)
	_, err := b.engine(b.providers, slog.DiscardHandler).Create(t.Context(), run.CreateRequest{Spec: &run.Spec{
		Name: "n", Group: "/a/b", SecretsFrom: map[string]run.SecretRef{"P": {Provider: "pull", Name: "MIRROR"}},
		Tasks: map[string]*run.TaskSpec{"a": {Image: "mirror.example.com/a", Pool: "docker", Steps: []run.Step{{Run: "true"}}}},
	}})
	require.Equal(t, "secrets_from.P", faults(err)[0].Path)

	delete(b.variables, "PULL_MIRROR")
	require.Equal(t, "the pool's credentials for mirror.example.com are not available: not_found", claim("/a/b", plain).Fault)
}

// meeting is a set of providers in which each read waits for the other.
type meeting struct {
	engine.Secrets

	runs, pools chan struct{}
	code        run.Code // of the failure of a registry that no image needs
}

func (m meeting) Resolve(ctx context.Context, group string, refs map[string]run.SecretRef) (map[string]run.Secret, error) {
	close(m.runs)
	<-m.pools
	return m.Secrets.Resolve(ctx, group, refs)
}

func (m meeting) ResolvePool(ctx context.Context, refs map[string]run.SecretRef) (map[string]run.Secret, map[string]error) {
	close(m.pools)
	<-m.runs
	passwords, failed := m.Secrets.ResolvePool(ctx, refs)
	if _, ok := failed["ghcr.io"]; ok && m.code != "" {
		failed["ghcr.io"] = run.Errorf(m.code, "https://vault.internal: connection refused")
	}
	return passwords, failed
}

// An executor waits for one provider, not for two one after the other. While a provider
// is not available that may have a password which the task needs, the task waits.
func TestPoolRegistries_of_providers_that_do_not_answer(t *testing.T) {
	t.Parallel()
	b := newPoolBench(t)
	require.NoError(t, b.put(run.SecretRef{Provider: "pull", Name: "MIRROR"}))
	for _, c := range []struct {
		name string
		step run.Step
		code run.Code
		want run.Code
	}{
		{"of a registry that is not needed", run.Step{Run: "true"}, run.CodeUnavailable, ""},
		{"of one that an image of the executor may need", run.Step{Checkout: &run.Checkout{Repository: "https://git.example.com/a"}}, run.CodeUnavailable, run.CodeUnavailable},
		{"of one that an image of the task needs", run.Step{Run: "true", Image: "ghcr.io/a"}, run.CodeUnavailable, run.CodeUnavailable},
		{"without the password, which may be needed", run.Step{Checkout: &run.Checkout{Repository: "https://git.example.com/a"}}, run.CodeForbidden, ""},
	} {
		var log bytes.Buffer
		d, err := b.claim(t, meeting{b.providers, make(chan struct{}), make(chan struct{}), c.code}, &log, "/a/b", c.step)
		require.Equal(t, c.want, run.CodeOf(err), c.name)
		if c.want == "" {
			require.Equal(t, map[string]run.Auth{"mirror.example.com": {Username: "puller", Password: "of the pool"}}, d.Auth, c.name)
			continue
		}
		require.EqualError(t, err, "the pool's credentials for ghcr.io are not available: unavailable", c.name)
		require.Contains(t, log.String(), "vault.internal", c.name)
	}
}
