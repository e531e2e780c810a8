package clients

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// poolImages is a Drover with an executor on Docker, whose pool linux restricts images.
type poolImages struct {
	*harness.Parts
	t        *testing.T
	docker   *client.Client
	registry *testenv.Registry
	allowed  string // an image that the pool allows
	standard string // the image of the pool, which no pattern allows
}

func startPoolImages(t *testing.T) *poolImages {
	t.Helper()
	docker := testenv.RequireDocker(t)
	p := &poolImages{t: t, docker: docker, registry: testenv.NewRegistry(t, docker), allowed: testenv.BusyboxImage(t, docker)}
	p.standard = testenv.ImageVariant(t, docker, p.allowed, "ENV MARK=the-image-of-the-pool")
	providers := filepath.Join(t.TempDir(), "providers.yaml")
	require.NoError(t, os.WriteFile(providers, []byte("providers: {pulls: {type: env, prefix: PULL_, pools: true}}\n"), 0o600))
	p.Parts = harness.StartParts(t, "4", map[harness.Part][]string{
		harness.Executor: {"DROVER_EXECUTOR__DRIVER=docker", "DROVER_EXECUTOR__POOL=linux"},
		harness.Gateway:  {"DROVER_GATEWAY__SECRET_PROVIDERS_FILE=" + providers, "PULL_MIRROR=" + p.registry.Password},
	})
	t.Cleanup(func() { _ = p.removeMirrored() })
	return p
}

// mirrored is an image of the run file that the rewrite of the pool takes to the registry.
const mirrored = "acme/tool:1"

func (p *poolImages) removeMirrored() error {
	_, err := p.docker.ImageRemove(p.t.Context(), p.registry.Image(), image.RemoveOptions{Force: true})
	return err //nolint:wrapcheck // it names the image
}

// apply replaces the settings of the pool by the driver and these.
func (p *poolImages) apply(settings ...string) {
	p.t.Helper()
	file := filepath.Join(p.t.TempDir(), "pool.yaml")
	require.NoError(p.t, os.WriteFile(file, []byte("driver: docker\n"+strings.Join(settings, "\n")+"\n"), 0o600))
	out, code := p.Command("pools", "apply", "-f", file, "--name", "linux")
	require.Zero(p.t, code, out)
}

// spec is a run with one task of the pool.
func (p *poolImages) spec(task string) string {
	return "name: images\ngroup: /test/images\ntasks:\n  a:\n    pool: linux\n" + task
}

// runs runs a task, and returns its status, its reason and its whole log.
func (p *poolImages) runs(spec string) (status api.Status, reason, log string) {
	p.t.Helper()
	id := p.Submit(spec).ID
	task := p.AwaitPhase(id, api.PhaseFinished).Tasks["a"]
	code, log, err := p.Do(p.t.Context(), http.MethodGet, "/api/v1/runs/"+id+"/tasks/a/logs", "", "")
	require.NoError(p.t, err)
	require.Equal(p.t, http.StatusOK, code, log)
	require.NotContains(p.t, log+task.Reason, p.registry.Password)
	return task.Status, task.Reason, log
}

func (p *poolImages) succeeds(spec string, lines ...string) {
	p.t.Helper()
	status, reason, log := p.runs(spec)
	require.Equal(p.t, api.StatusSuccess, status, "%s\n%s", reason, log)
	for _, line := range lines {
		require.Contains(p.t, log, line)
	}
}

func (p *poolImages) fails(spec, want string) {
	p.t.Helper()
	status, reason, _ := p.runs(spec)
	require.Equal(p.t, api.StatusFailed, status)
	require.Contains(p.t, reason, want)
}

// refuses checks that the submission of a run is refused, and that a fault has the texts.
func (p *poolImages) refuses(spec string, texts ...string) {
	p.t.Helper()
	code, body, err := p.Do(p.t.Context(), http.MethodPost, "/api/v1/runs", "application/yaml", spec)
	require.NoError(p.t, err)
	require.Equal(p.t, http.StatusUnprocessableEntity, code, body)
	require.Contains(p.t, body, "pool_mismatch")
	for _, text := range texts {
		require.Contains(p.t, body, text)
	}
}

// TestPool_images submits runs to a pool with an image of its own, which allows some images
// only, and pulls others from a mirror with credentials of its own.
func TestPool_images(t *testing.T) {
	t.Parallel()
	p := startPoolImages(t)
	const echo = "    steps: [{run: 'echo \"$MARK fetched $FETCHED\"'}]\n"
	p.apply(
		"image: "+p.standard,
		"allowed_images: [drover-test/busybox, docker.io/acme/*]",
		"allowed_service_images: ["+p.allowed+"]",
		"allowed_pull_policies: [if_not_present, always]",
		"image_rewrites: {docker.io/acme: "+p.registry.Host+"/private}",
		"registries: {'"+p.registry.Host+"': {username: "+testenv.RegistryUser+", password_from: {provider: pulls, name: MIRROR}}}",
	)
	p.succeeds(p.spec(echo), "the-image-of-the-pool", "using image docker.io/"+p.standard)
	p.succeeds(p.spec("    image: "+p.standard+"\n"+echo), "the-image-of-the-pool")
	p.succeeds(p.spec(fmt.Sprintf(`    image: index.docker.io/%[1]s
    steps: [{run: echo a step}, {image: %[1]s, run: echo a step elsewhere}]
    services: [{name: web, image: docker.io/%[1]s, command: [sleep, "300"], health: {command: ['true']}}]
`, p.allowed)), "using image docker.io/"+p.allowed, "a step elsewhere\n")
	p.succeeds(p.spec("    image: "+mirrored+"\n"+echo), " fetched yes\n", "pulled image "+p.registry.Image())
	require.Positive(t, p.registry.Pulls())

	p.refuses(p.spec("    image: alpine\n"+echo), "tasks.a.image", "allowed_images")
	p.refuses(p.spec("    image: evil.example.com/"+p.allowed+"\n"+echo), "tasks.a.image")
	p.refuses(p.spec("    steps: [{image: alpine, run: 'true'}]\n"), "tasks.a.steps[0].image")
	p.refuses(p.spec("    services: [{image: 'acme/tool:1'}]\n"+echo), "tasks.a.services[0].image", "allowed_service_images")
	p.refuses(p.spec("    pull_policy: never\n"+echo), "tasks.a.pull_policy", "allowed_pull_policies")

	// The executor has no image for checkouts, so it cannot do what this step needs.
	p.refuses(p.spec("    steps: [{checkout: {repository: 'https://git.example.com/a/b.git'}}]\n"), "tasks.a.steps[0]")
}

// TestPool_images_ids names images by their IDs: where patterns restrict images, an ID is
// the name of an image of Docker Hub.
func TestPool_images_ids(t *testing.T) {
	t.Parallel()
	p := startPoolImages(t)
	found, err := p.docker.ImageInspect(t.Context(), p.standard)
	require.NoError(t, err)
	id := strings.TrimPrefix(found.ID, "sha256:")[:12]
	spec := p.spec("    image: '" + id + "'\n    pull_policy: never\n    steps: [{run: 'echo $MARK'}]\n")
	p.succeeds(spec, "the-image-of-the-pool")
	p.apply("allowed_images: ['**']")
	p.fails(spec, "image docker.io/library/"+id+":latest is not on this host")
}

// TestPool_images_of_a_run pulls with the credentials in the secret DOCKER_AUTH_CONFIG of
// the run.
func TestPool_images_of_a_run(t *testing.T) {
	t.Parallel()
	p := startPoolImages(t)
	p.apply("image_rewrites: {docker.io/acme: " + p.registry.Host + "/private}")
	spec := p.spec("    image: " + mirrored + "\n    steps: [{run: 'echo fetched $FETCHED; echo \"$DOCKER_AUTH_CONFIG\"'}]\n")
	p.fails(spec, "image pull failed")
	secret := func(password string) string {
		auth := base64.StdEncoding.EncodeToString([]byte(testenv.RegistryUser + ":" + password))
		return "secrets: {DOCKER_AUTH_CONFIG: '{\"auths\": {\"" + p.registry.Host + "\": {\"auth\": \"" + auth + "\"}}}'}\n"
	}
	p.fails(secret("wrong")+spec, "image pull failed")
	p.succeeds(secret(p.registry.Password)+spec, "fetched yes\n***\n")
}
