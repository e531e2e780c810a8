package run_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/distribution/reference"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

const digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// Images are named in full as the Docker driver does.
func TestFullImage(t *testing.T) {
	t.Parallel()
	require.Empty(t, run.FullImage(""))
	compared := 0
	for _, registry := range []string{
		"", "docker.io/", "index.docker.io/", "Docker.io/", "registry-1.docker.io/", "registry.example.com/", "REGISTRY.example.com/", "registry.example.com:5000/",
		"localhost/", "localhost:5000/", "LocalHost/", "[::1]:5000/", "registry/", "library/", "docker/", "127.0.0.1/",
	} {
		for _, path := range []string{"alpine", "library/alpine", "team/app", "a/b/c", "deadbeef", "sha256"} {
			for _, tag := range []string{"", ":latest", ":3.20", ":5000"} {
				for _, sum := range []string{"", "@" + digest} {
					image := registry + path + tag + sum
					want, err := reference.ParseDockerRef(image)
					require.NoError(t, err, image)
					require.Equal(t, want.String(), run.FullImage(image), image)
					require.Equal(t, want.String(), run.FullImage(run.FullImage(image)), image)
					compared++
				}
			}
		}
	}
	require.Equal(t, 16*6*4*2, compared)
}

func TestImageAllowed(t *testing.T) {
	t.Parallel()
	for pattern, tt := range map[string]struct{ yes, no []string }{
		"alpine": {
			[]string{"alpine", "alpine:3.20", "library/alpine", "docker.io/alpine", "docker.io/library/alpine:latest", "index.docker.io/library/alpine", "alpine@" + digest, "alpine:3@" + digest},
			[]string{
				"alpine2", "team/alpine", "docker.io/team/alpine", "registry.example.com/alpine", "registry.example.com/library/alpine", "localhost/library/alpine",
				"docker.io:443/library/alpine", "docker.io.example.com/library/alpine", "registry-1.docker.io/library/alpine", "LIBRARY/alpine",
			},
		},
		"alpine:3.*": {
			[]string{"alpine:3.20", "docker.io/library/alpine:3.", "alpine:3.20.1-x"},
			[]string{"alpine", "alpine:latest", "alpine:13.1", "alpine:3.20@" + digest, "alpine@" + digest},
		},
		"alpine:latest":                  {[]string{"alpine", "docker.io/library/alpine:latest"}, []string{"alpine:3", "alpine@" + digest}},
		"alpine:*":                       {[]string{"alpine", "alpine:3"}, []string{"alpine@" + digest, "alpine:3@" + digest}},
		"alpine@" + digest:               {[]string{"alpine@" + digest, "docker.io/library/alpine:3@" + digest}, []string{"alpine", "alpine@" + strings.Replace(digest, "e3", "e4", 1)}},
		"**@sha256:*":                    {[]string{"alpine@" + digest, "registry.example.com/a/b@" + digest}, []string{"alpine", "sha256:3"}},
		"registry.example.com/team/*":    {[]string{"registry.example.com/team/app", "REGISTRY.Example.com/team/app:1", "registry.example.com/team/app@" + digest}, []string{"registry.example.com/team", "registry.example.com/team/a/b", "registry.example.com/teams/app", "registry.example.com:443/team/app", "registry.example.com.evil.io/team/app", "evil.io/registry.example.com/team/app", "team/app"}},
		"Registry.Example.com/team/*":    {[]string{"registry.example.com/team/app"}, []string{"team/app"}},
		"registry.example.com/team/**":   {[]string{"registry.example.com/team/app", "registry.example.com/team/a/b:1"}, []string{"registry.example.com/teams/app"}},
		"registry.example.com/**/base":   {[]string{"registry.example.com/base", "registry.example.com/a/base:2", "registry.example.com/a/b/base"}, []string{"registry.example.com/a/base/c", "base"}},
		"registry.example.com/*/base-*":  {[]string{"registry.example.com/a/base-x"}, []string{"registry.example.com/a/base", "registry.example.com/a/b/base-x"}},
		"registry.example.com:5000/**":   {[]string{"registry.example.com:5000/a/b"}, []string{"registry.example.com/a/b", "registry.example.com:5001/a/b", "registry.example.com:50000/a"}},
		"*.example.com/**":               {[]string{"registry.example.com/a", "a.b.example.com/a/b"}, []string{"example.com/a", "registry.example.com:5000/a", "registry.example.com.evil.io/a", "evil.io/a.example.com/a"}},
		"localhost:*/a":                  {[]string{"localhost:5000/a"}, []string{"localhost/a", "a"}},
		"[::1]:5000/*":                   {[]string{"[::1]:5000/a"}, []string{"[::2]:5000/a"}},
		"*":                              {[]string{"alpine", "docker.io/library/alpine:3"}, []string{"team/app", "registry.example.com/alpine"}},
		"team/*":                         {[]string{"team/app", "docker.io/team/app"}, []string{"registry.example.com/team/app", "team/a/b"}},
		"*/*":                            {[]string{"alpine", "team/app"}, []string{"registry.example.com/app", "a/b/c"}},
		"docker.io/**":                   {[]string{"alpine", "team/app", "a/b/c", "index.docker.io/team/app"}, []string{"registry.example.com/app"}},
		"index.docker.io/team/*":         {[]string{"team/app"}, []string{"alpine"}},
		"**":                             {[]string{"alpine", "team/app", "registry.example.com:5000/a/b/c@" + digest, "[::1]/a"}, nil},
		"**/app":                         {[]string{"app", "team/app", "registry.example.com/app", "registry.example.com/a/b/app:1"}, []string{"alpine", "app/alpine"}},
		"**/a/**/b":                      {[]string{"registry.example.com/a/b", "a/x/a/y/b"}, []string{"registry.example.com/b/a"}},
		strings.Repeat("*a", 100) + ":*": {nil, []string{strings.Repeat("a", 99)}},
	} {
		require.NoError(t, run.CheckImagePattern(pattern), pattern)
		for _, image := range tt.yes {
			require.True(t, run.ImageAllowed([]string{"none", pattern}, image), "%s: %s", pattern, image)
		}
		for _, image := range tt.no {
			require.False(t, run.ImageAllowed([]string{"none", pattern}, image), "%s: %s", pattern, image)
		}
	}
	require.True(t, run.ImageAllowed(nil, "alpine"), "without patterns")
}

func TestCheckImagePattern_faults(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{
		"", " ", "a b", "/a", "a/", "a//b", "a?", "[a-z]/x", "{a,b}", "!a", "a**", "a/**b", "Alpine", "registry.example.com/Team/x", "a:", "a@", "a:@" + digest, "a:1@" + digest,
		"registry.example.com", "registry.example.com:5000", "localhost:5000", "ä", strings.Repeat("a", 501), "\x00",
	} {
		require.Equal(t, run.CodeInvalid, run.CodeOf(run.CheckImagePattern(pattern)), "%q", pattern)
	}
}

// pulled returns the name under which an executor gets an image of a pool.
func pulled(images run.PoolImages, image string) string {
	d := run.Definition{Image: image}
	run.Pool{Driver: run.DriverDocker, Images: images}.Define(&d)
	return d.Image
}

func TestPool_Define_rewrites(t *testing.T) {
	t.Parallel()
	rewrites := map[string]string{
		"docker.io": "mirror.example.com/hub", "docker.io/team": "docker.io/acme", "docker.io/team/app/base": "registry.example.com:5000/base",
		"ghcr.io": "[::1]:5000", "registry.example.com/one": "mirror.example.com", "registry.example.com:5000": "docker.io",
	}
	for image, want := range map[string]string{
		"":                               "",
		"alpine":                         "mirror.example.com/hub/library/alpine:latest",
		"index.docker.io/alpine:3":       "mirror.example.com/hub/library/alpine:3",
		"DOCKER.io/library/alpine:3":     "mirror.example.com/hub/library/alpine:3",
		"alpine:3@" + digest:             "mirror.example.com/hub/library/alpine@" + digest,
		"team/app:1":                     "docker.io/acme/app:1",
		"team/app/base":                  "registry.example.com:5000/base:latest",
		"team/app/base/x":                "registry.example.com:5000/base/x:latest",
		"team/app/bases":                 "docker.io/acme/app/bases:latest",
		"teams/app":                      "mirror.example.com/hub/teams/app:latest",
		"ghcr.io/a/b:1":                  "[::1]:5000/a/b:1",
		"ghcr.io:443/a/b":                "ghcr.io:443/a/b",
		"ghcr.io.example.com/a":          "ghcr.io.example.com/a",
		"quay.io/a/b":                    "quay.io/a/b",
		"mirror.example.com/hub/a:1":     "mirror.example.com/hub/a:1",
		"registry.example.com/one/app":   "mirror.example.com/app:latest",
		"registry.example.com/one:1":     "registry.example.com/one:1", // it would be mirror.example.com:1
		"registry.example.com:5000/app":  "docker.io/library/app:latest",
		"registry.example.com:5000/a/b":  "docker.io/a/b:latest",
		"registry-1.docker.io/team/app":  "docker.io/acme/app:latest",
		"docker.io:443/alpine":           "mirror.example.com/hub/library/alpine:latest",
		"Index.Docker.io:443/a/b:1":      "mirror.example.com/hub/a/b:1",
		"docker.io:5000/a":               "docker.io:5000/a",
		"localhost/docker.io/alpine:3.2": "localhost/docker.io/alpine:3.2",
	} {
		require.Equal(t, want, pulled(run.PoolImages{Rewrites: rewrites}, image), image)
	}
	for prefix, to := range rewrites {
		require.NoError(t, run.CheckImagePrefix(prefix))
		require.NoError(t, run.CheckImagePrefix(to))
	}

	images := run.PoolImages{Rewrites: map[string]string{"docker.io": "mirror.example.com/hub"}, Allowed: []string{"alpine", "quay.io/*"}}
	require.True(t, images.Allows("alpine:3"), "the list is for the names that tasks use")
	require.False(t, images.Allows("mirror.example.com/hub/library/alpine:3"))
	require.Equal(t, "mirror.example.com/hub/library/alpine:3", pulled(images, "alpine:3"))
	require.Equal(t, "quay.io/app:latest", pulled(images, "quay.io/app"))

	d := run.Definition{
		Steps:    []run.StepDef{{Image: "golang"}, {}, {Image: "docker.io/library/golang:latest"}},
		Services: []run.ServiceSpec{{Name: "postgres", Image: "postgres:16"}},
	}
	run.Pool{Driver: run.DriverKubernetes, Images: images}.Define(&d)
	require.Equal(t, []string{"mirror.example.com/hub/library/golang:latest"}, d.HelperImages())
	require.Empty(t, d.Steps[1].Image)
	require.Equal(t, "mirror.example.com/hub/library/postgres:16", d.Services[0].Image)
	require.Equal(t, "postgres", d.Services[0].Name)
}

func TestCheckImagePrefix_faults(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{
		"", " ", "alpine", "team/app", "docker", "index.docker.io", "index.docker.io/team", "registry-1.docker.io", "docker.io:443/team", "docker.io/", "/docker.io", "docker.io//a", "docker.io/*", "*.example.com", "**",
		"Docker.io", "docker.io/Team", "docker.io/a:1", "docker.io/a@" + digest, "docker.io:", "docker.io:x", "https://docker.io", "docker..io", ".docker.io", "docker.io/a..b",
		"user@docker.io", "[::1", "docker.io\n", "ä.io", "docker.io/" + strings.Repeat("a", 250), "a.io/../b",
	} {
		require.Equal(t, run.CodeInvalid, run.CodeOf(run.CheckImagePrefix(prefix)), "%q", prefix)
	}
}

// FuzzRewrite compares the names of pulled images with those that the Docker driver
// understands.
func FuzzRewrite(f *testing.F) {
	for _, image := range []string{
		"alpine", "alpine:3@" + digest, "team/app", "docker.io/a", "Docker.io/a/b:1", "index.docker.io/a", "Registry-1.docker.io/a", "docker.io:443/a/b@" + digest, "registry.example.com:5000/a/b", "localhost/a", "ghcr.io/a/b:1", "[::1]:5000/a",
	} {
		f.Add(image, "docker.io", "mirror.example.com/hub")
		f.Add(image, "ghcr.io/a/b", "mirror.example.com")
		f.Add(image, "docker.io/library", "localhost:5000")
	}
	f.Fuzz(func(t *testing.T, image, from, to string) {
		got := pulled(run.PoolImages{Rewrites: map[string]string{from: to}}, image)
		if run.CheckImagePrefix(from) != nil || run.CheckImagePrefix(to) != nil {
			return
		}
		was, err := reference.ParseDockerRef(image)
		if err != nil {
			return
		}
		if slices.Contains([]string{"docker.io", "index.docker.io", "registry-1.docker.io"}, strings.TrimSuffix(strings.ToLower(reference.Domain(was)), ":443")) {
			was, err = reference.ParseDockerRef("docker.io" + strings.TrimPrefix(was.String(), reference.Domain(was)))
			require.NoError(t, err)
		}
		name := strings.ToLower(reference.Domain(was)) + "/" + reference.Path(was)
		rest, begins := strings.CutPrefix(name, from)
		if !begins || rest != "" && rest[0] != '/' || rest == "" && !strings.Contains(to, "/") {
			require.Equal(t, image, got)
			return
		}
		want, err := reference.ParseDockerRef(to + rest + strings.TrimPrefix(was.String(), was.Name()))
		if err != nil { // it is too long
			return
		}
		require.Equal(t, want.String(), got)
	})
}
