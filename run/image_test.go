package run_test

import (
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
