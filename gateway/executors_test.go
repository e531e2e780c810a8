package gateway_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/gateway"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/runtest"
)

func TestServer_drains_and_removes_executors(t *testing.T) {
	t.Parallel()
	var got []any
	e := run.Executor{ID: "e1", Pool: "linux", Driver: "docker", State: run.ExecutorDraining, Reason: "new kernel", Drained: true}
	service := &runtest.Service{
		DrainExecutorFunc: func(_ context.Context, id, reason string) (run.Executor, error) {
			got = append(got, "drain "+id+" "+reason)
			return e, nil
		},
		ResumeExecutorFunc: func(_ context.Context, id string) (run.Executor, error) {
			got = append(got, "resume "+id)
			return e, nil
		},
		RemoveExecutorFunc: func(_ context.Context, id string, why run.Removal) (run.Executor, error) {
			got = append(got, "remove "+id, why)
			e := e
			e.State, e.RemovedAt = run.ExecutorRemoved, time.Now()
			return e, nil
		},
	}
	base := serve(t, gateway.Deps{Runs: service}, gateway.Options{})
	for _, c := range []call{
		{method: http.MethodPost, path: "/api/v1/executors/e1/drain"},
		{method: http.MethodPost, path: "/api/v1/executors/e1/drain", body: `{"reason": "new kernel"}`},
		{method: http.MethodPost, path: "/api/v1/executors/e1/drain", body: `{"resume": true}`},
		{method: http.MethodDelete, path: "/api/v1/executors/e1"},
		{method: http.MethodDelete, path: "/api/v1/executors/e1?force=true&reason=it%20burnt"},
	} {
		a := c.do(t, base)
		require.Equal(t, http.StatusOK, a.status, a.body)
		conforms(t, "Executor", a.body)
	}
	require.Equal(t, []any{
		"drain e1 ", "drain e1 new kernel", "resume e1",
		"remove e1",
		run.Removal{},
		"remove e1",
		run.Removal{Force: true, Reason: "it burnt"},
	}, got)
	call{method: http.MethodPost, path: "/api/v1/executors/e1/drain", body: `{"reason": "` + strings.Repeat("x", 501) + `"}`}.do(t, base).
		problem(t, http.StatusUnprocessableEntity, run.CodeInvalid)
	call{method: http.MethodDelete, path: "/api/v1/executors/e1?reason=a%0Ab"}.do(t, base).problem(t, http.StatusBadRequest, run.CodeInvalid)
	call{method: http.MethodDelete, path: "/api/v1/executors/e1?force=perhaps"}.do(t, base).problem(t, http.StatusBadRequest, run.CodeInvalid)
}

func TestServer_puts_pools(t *testing.T) {
	t.Parallel()
	var got []run.Pool
	deleted := ""
	service := &runtest.Service{
		PutPoolFunc: func(_ context.Context, p run.Pool) (run.Pool, bool, error) {
			got = append(got, p)
			return p, len(got) == 1, nil
		},
		DeletePoolFunc: func(_ context.Context, name string) error { deleted = name; return nil },
	}
	base := serve(t, gateway.Deps{Runs: service}, gateway.Options{})
	const body = `
driver: kubernetes
os: linux
labels: {gpu: a100}
privileged: true
shared: true
default: true
flavor: {name: large, memory: 8Gi, weight: 2}
image: alpine:3
allowed_images: ["registry.example.com/team/*"]
allowed_service_images: [postgres, "redis:7.*"]
allowed_pull_policies: [always, never]
image_rewrites: {docker.io: mirror.example.com/hub}
registries: {mirror.example.com: {username: puller, password_from: {provider: vault, name: ci/mirror, key: password}}}
kubernetes: {node_selector: {disk: ssd}, affinity: {nodeAffinity: {}}}
`
	for i, status := range []int{http.StatusCreated, http.StatusOK} {
		a := call{method: http.MethodPut, path: "/api/v1/pools/gpu", body: body, header: map[string]string{"Content-Type": "application/yaml"}}.do(t, base)
		require.Equal(t, status, a.status, a.body)
		conforms(t, "Pool", a.body)
		require.Empty(t, cmp.Diff(run.Pool{
			Name: "gpu", Driver: "kubernetes", OS: "linux", Labels: map[string]string{"gpu": "a100"}, Privileged: true, Shared: true, Default: true,
			Flavor:     run.Flavor{Name: "large", Memory: "8Gi", Weight: 2},
			Kubernetes: &run.KubernetesPool{NodeSelector: map[string]string{"disk": "ssd"}, Affinity: []byte(`{"nodeAffinity":{}}`)},
			Images: run.PoolImages{
				Default: "alpine:3", Allowed: []string{"registry.example.com/team/*"}, AllowedServices: []string{"postgres", "redis:7.*"},
				PullPolicies: []run.PullPolicy{run.PullAlways, run.PullNever}, Rewrites: map[string]string{"docker.io": "mirror.example.com/hub"},
				Registries: map[string]run.PoolRegistry{
					"mirror.example.com": {Username: "puller", PasswordFrom: run.SecretRef{Provider: "vault", Name: "ci/mirror", Key: "password"}},
				},
			},
		}, got[i]))
		var view api.Pool
		a.read(t, &view)
		require.Equal(t, "gpu", view.Name)
		require.Equal(t, run.PoolImages{
			Default: view.Image, Allowed: view.AllowedImages, AllowedServices: view.AllowedServiceImages, PullPolicies: view.AllowedPullPolicies,
			Rewrites: view.ImageRewrites, Registries: view.Registries,
		}, got[i].Images)
	}
	for body, rewrites := range map[string]map[string]string{`{"driver": "docker"}`: nil, `{"driver": "docker", "image_rewrites": {}}`: {}} {
		call{method: http.MethodPut, path: "/api/v1/pools/gpu", body: body}.do(t, base)
		require.Equal(t, rewrites, got[len(got)-1].Images.Rewrites, "absent keeps them, and an empty map removes them")
	}
	for body, volumes := range map[string][]string{`{"driver": "docker"}`: nil, `{"driver": "docker", "allowed_volumes": []}`: {}, `{"driver": "docker", "allowed_volumes": ["go-*"]}`: {"go-*"}} {
		call{method: http.MethodPut, path: "/api/v1/pools/gpu", body: body}.do(t, base)
		require.Equal(t, volumes, got[len(got)-1].AllowedVolumes, "absent keeps them, and an empty list removes them")
	}
	for body, want := range map[string][2][]string{
		`{"driver": "docker"}`: {}, `{"driver": "docker", "allowed_host_paths": [], "allowed_devices": []}`: {{}, {}},
		`{"driver": "docker", "allowed_host_paths": ["/srv/*"], "allowed_devices": ["/dev/kvm"]}`: {{"/srv/*"}, {"/dev/kvm"}},
	} {
		call{method: http.MethodPut, path: "/api/v1/pools/gpu", body: body}.do(t, base)
		require.Equal(t, want, [2][]string{got[len(got)-1].AllowedHostPaths, got[len(got)-1].AllowedDevices}, "absent keeps them, and an empty list removes them")
	}
	for body, registries := range map[string]map[string]run.PoolRegistry{`{"driver": "docker"}`: nil, `{"driver": "docker", "registries": {}}`: {}} {
		call{method: http.MethodPut, path: "/api/v1/pools/gpu", body: body}.do(t, base)
		require.Equal(t, registries, got[len(got)-1].Images.Registries, "absent keeps them, and an empty map removes them")
	}
	require.Equal(t, http.StatusNoContent, call{method: http.MethodDelete, path: "/api/v1/pools/gpu"}.do(t, base).status)
	require.Equal(t, "gpu", deleted)
}
