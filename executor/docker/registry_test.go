package docker_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// fakeRegistry serves one image under the name "private/tool:1" to clients that
// know the password.
type fakeRegistry struct {
	host     string
	password string
	pulls    atomic.Int32 // of the manifest by its tag
	blobs    map[string][]byte
	manifest []byte
}

const (
	manifestType = "application/vnd.docker.distribution.manifest.v2+json"
	configType   = "application/vnd.docker.container.image.v1+json"
	layerType    = "application/vnd.docker.image.rootfs.diff.tar"
)

// newRegistry serves the layer of the busybox image over HTTP, which daemons
// accept on loopback addresses.
func newRegistry(t *testing.T, b *bench) *fakeRegistry {
	t.Helper()
	if !strings.HasPrefix(b.cli.DaemonHost(), "unix://") {
		testenv.Missing(t, "docker", "the daemon is on another host and would not find a registry here", "start a daemon on this host")
	}
	r := &fakeRegistry{password: rand.Text(), blobs: make(map[string][]byte)}
	layer := b.layer(t)
	config, err := json.Marshal(map[string]any{
		"architecture": b.architecture(t), "os": "linux", "config": map[string]any{"Env": []string{"PATH=/bin", "FETCHED=yes"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{r.add(layer)}},
	})
	require.NoError(t, err)
	r.manifest, err = json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": map[string]any{"mediaType": configType, "size": len(config), "digest": r.add(config)},
		"layers": []any{map[string]any{"mediaType": layerType, "size": len(layer), "digest": r.add(layer)}},
	})
	require.NoError(t, err)
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	r.host = "127.0.0.1:" + port
	return r
}

func (r *fakeRegistry) image() string { return r.host + "/private/tool:1" }

func (r *fakeRegistry) add(blob []byte) string {
	sum := sha256.Sum256(blob)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	r.blobs[digest] = blob
	return digest
}

func (r *fakeRegistry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if user, password, _ := request.BasicAuth(); user != "alice" || password != r.password {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprint(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`)
		return
	}
	sum := sha256.Sum256(r.manifest)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	content, kind := []byte(nil), ""
	switch path := strings.TrimPrefix(request.URL.Path, "/v2/private/tool/"); {
	case request.URL.Path == "/v2/":
		content, kind = []byte("{}"), "application/json"
	case path == "manifests/1", path == "manifests/"+digest:
		if path == "manifests/1" {
			r.pulls.Add(1)
		}
		content, kind = r.manifest, manifestType
		w.Header().Set("Docker-Content-Digest", digest)
	case strings.HasPrefix(path, "blobs/"):
		content, kind = r.blobs[strings.TrimPrefix(path, "blobs/")], "application/octet-stream"
	}
	if content == nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprint(w, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = w.Write(content)
}

func (b *bench) architecture(t testing.TB) string {
	t.Helper()
	info, err := b.cli.ImageInspect(t.Context(), b.image)
	require.NoError(t, err)
	return info.Architecture
}

func TestDriver_pull(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	registry := newRegistry(t, b)
	def := b.definition(t, "echo fetched $FETCHED")
	def.Image, def.PullPolicy = registry.image(), run.PullIfNotPresent
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
	refused(registry.image(), "pull policy is never")
	def.PullPolicy = run.PullIfNotPresent
	refused("image pull failed: ", "no basic auth credentials")
	def.Auth = map[string]run.Auth{registry.host: {Username: "alice", Password: "wrong"}}
	refused("image pull failed: ")
	require.Zero(t, registry.pulls.Load())

	def.Auth[registry.host] = run.Auth{Username: "alice", Password: registry.password}
	require.Regexp(t, `^pulling image \S+/private/tool:1\npulled image \S+/private/tool:1 \(.* in .*s\)$`, done())
	b.removeImageAfter(t, registry.image())
	pulls := registry.pulls.Load()
	require.Positive(t, pulls)
	require.Contains(t, done(), "which is present")
	require.Equal(t, pulls, registry.pulls.Load())

	def.PullPolicy = run.PullAlways
	require.Contains(t, done(), "pulled image")
	require.Greater(t, registry.pulls.Load(), pulls)
	def.Image = registry.host + "/private/tool:2"
	refused("image pull failed: ", "tool:2")
	def.Image = "127.0.0.1:1/no/registry:1"
	refused("image pull failed: ")
}

// TestDriver_image_rewrites pulls the images of a task and its service from a mirror, with
// the credentials of the pool.
func TestDriver_image_rewrites(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	registry := newRegistry(t, b)
	def := b.definition(t, "echo fetched $FETCHED")
	def.Image, def.PullPolicy = "registry.example.com/tool:1", run.PullIfNotPresent
	def.Services = []run.ServiceSpec{{Name: "other", Image: "registry.example.com/tool:1", Command: []string{"sleep", "300"}}}
	run.Pool{Images: run.PoolImages{
		Rewrites:   map[string]string{"registry.example.com": registry.host + "/private"},
		Registries: map[string]run.PoolRegistry{registry.host: {Username: "alice"}},
	}}.Define(&def)
	def.SupplyPool(map[string]run.Secret{registry.host: run.Secret(registry.password)})
	var log setupLog
	h, err := b.driver.Start(t.Context(), executor.Task{Definition: def, Log: log.add, Launch: launchAt(1)})
	b.removeImageAfter(t, registry.image())
	require.NoError(t, err)
	require.Equal(t, "fetched yes\n", follow(t, h, 1).output)
	require.NoError(t, h.Remove(t.Context()))
	require.Contains(t, log.String(), "pulled image "+registry.image())
	require.NotContains(t, log.String(), "registry.example.com")
	require.NotContains(t, log.String(), registry.password)
	b.requireNothingLeft(t)
}

// TestDriver_image_of_another_run runs a task with an image that another run
// pulled with its own credentials.
func TestDriver_image_of_another_run(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	registry := newRegistry(t, b)
	start := func(shared bool, policy run.PullPolicy, password string) error {
		def := b.definition(t, "echo fetched $FETCHED")
		def.Image, def.PullPolicy = registry.image(), policy
		if password != "" {
			def.Auth = map[string]run.Auth{registry.host: {Username: "alice", Password: password}}
		}
		run.Pool{Shared: shared}.Define(&def)
		h, err := b.driver.Start(t.Context(), executor.Task{Definition: def, Log: new(setupLog).add, Launch: launchAt(1)})
		if err != nil {
			return err
		}
		require.Equal(t, "fetched yes\n", follow(t, h, 1).output)
		return h.Remove(t.Context())
	}
	require.NoError(t, start(true, run.PullIfNotPresent, registry.password))
	b.removeImageAfter(t, registry.image())
	for _, policy := range []run.PullPolicy{run.PullIfNotPresent, run.PullNever} {
		require.NoError(t, start(false, policy, ""), "runs of a pool that is not shared use what is present")
		require.ErrorContains(t, start(true, policy, ""), "image pull failed")
		require.ErrorContains(t, start(true, policy, rand.Text()), "image pull failed")
		require.NoError(t, start(true, policy, registry.password))
	}
	b.requireNothingLeft(t)
}
