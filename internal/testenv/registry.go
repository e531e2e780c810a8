package testenv

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"
)

const (
	manifestType = "application/vnd.docker.distribution.manifest.v2+json"
	configType   = "application/vnd.docker.container.image.v1+json"
	layerType    = "application/vnd.docker.image.rootfs.diff.tar"
)

// RegistryUser is the user of a Registry.
const RegistryUser = "alice"

// Registry serves one image under the name "private/tool:1" to clients that know the
// password. It is the busybox image, with the variable FETCHED=yes.
type Registry struct {
	Host     string
	Password string
	pulls    atomic.Int32
	blobs    map[string][]byte
	manifest []byte
}

// NewRegistry serves a registry over HTTP, which daemons accept on loopback addresses. The
// daemon of cli must be on this host.
func NewRegistry(t testing.TB, cli *client.Client) *Registry {
	t.Helper()
	if !strings.HasPrefix(cli.DaemonHost(), "unix://") {
		Missing(t, "docker", "the daemon is on another host and would not find a registry here", "start a daemon on this host")
	}
	busybox, err := BusyboxLayer()
	if err != nil {
		Missing(t, "docker", err.Error(), "install a static busybox (Debian: busybox-static)")
	}
	r := &Registry{Password: rand.Text(), blobs: make(map[string][]byte)}
	var layers, digests []any
	for _, layer := range [][]byte{busybox, ownLayer(t)} {
		digest := r.add(layer)
		digests = append(digests, digest)
		layers = append(layers, map[string]any{"mediaType": layerType, "size": len(layer), "digest": digest})
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{"Env": []string{"PATH=/bin", "FETCHED=yes"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": digests},
	})
	require.NoError(t, err)
	r.manifest, err = json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType, "layers": layers,
		"config": map[string]any{"mediaType": configType, "size": len(config), "digest": r.add(config)},
	})
	require.NoError(t, err)
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	r.Host = "127.0.0.1:" + port
	return r
}

// ownLayer returns a layer that no other registry has, so the daemon fetches it.
func ownLayer(t testing.TB) []byte {
	t.Helper()
	var buffer bytes.Buffer
	w, content := tar.NewWriter(&buffer), rand.Text()
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "registry", Mode: 0o644, Size: int64(len(content))}))
	_, err := w.Write([]byte(content))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return buffer.Bytes()
}

// Image returns the name of the image.
func (r *Registry) Image() string { return r.Host + "/private/tool:1" }

// Pulls returns how often the manifest was fetched by its tag.
func (r *Registry) Pulls() int { return int(r.pulls.Load()) }

func (r *Registry) add(blob []byte) string {
	digest := digestOf(blob)
	r.blobs[digest] = blob
	return digest
}

func digestOf(blob []byte) string {
	sum := sha256.Sum256(blob)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ServeHTTP answers what a daemon asks for in a pull.
func (r *Registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if user, password, _ := request.BasicAuth(); user != RegistryUser || password != r.Password {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprint(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`)
		return
	}
	digest := digestOf(r.manifest)
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
