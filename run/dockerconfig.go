package run

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// DockerAuthConfig is the name of the secret that has registry credentials in the form of
// Docker's config.json, as in GitLab CI.
const DockerAuthConfig = "DOCKER_AUTH_CONFIG"

// addDockerAuth adds the credentials of the secret DockerAuthConfig, if it is one of these,
// for registries for which the task has none.
func (d *Definition) addDockerAuth(secrets map[string]Secret) {
	config, ok := secrets[DockerAuthConfig]
	if !ok || d.Image == "" {
		return
	}
	found, err := dockerAuth(config.Reveal())
	if err != nil {
		d.Fault = err.Error()
		return
	}
	own := make(map[string]bool, len(d.Auth))
	for host := range d.Auth {
		own[registryHost(host)] = true
	}
	passwords := make(map[string]Secret, len(found))
	for host, a := range found {
		passwords[host] = Secret(a.Password)
		if own[host] {
			continue
		}
		if d.Auth == nil {
			d.Auth = make(map[string]Auth)
		}
		d.Auth[host] = a
	}
	d.Secrets = longestFirst(append(slices.Clone(d.Secrets), masked(passwords)...))
}

// dockerAuth returns the credentials in a Docker configuration by host. It ignores entries
// for paths and tokens, and helpers. Errors show no content. Errors: invalid.
func dockerAuth(config string) (map[string]Auth, error) {
	var c struct {
		Auths map[string]struct{ Auth, Username, Password string } `json:"auths"`
	}
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return nil, Errorf(CodeInvalid, `the secret %s is not JSON of the form {"auths": {"ghcr.io": {"auth": "..."}}}`, DockerAuthConfig)
	}
	found := make(map[string]Auth, len(c.Auths))
	for _, key := range slices.Sorted(maps.Keys(c.Auths)) {
		host, a := dockerAuthHost(key), Auth{Username: c.Auths[key].Username, Password: c.Auths[key].Password}
		if pair := c.Auths[key].Auth; pair != "" {
			text, err := base64.StdEncoding.DecodeString(pair)
			user, password, ok := strings.Cut(string(text), ":")
			if err != nil || !ok {
				return nil, Errorf(CodeInvalid, "the secret %s has credentials for %s that are not user:password in base64", DockerAuthConfig, brief(key))
			}
			a = Auth{Username: user, Password: password}
		}
		if _, twice := found[host]; host != "" && a.Username != "" && !twice {
			found[host] = a
		}
	}
	return found, nil
}

// dockerAuthHost returns the host of a key of a Docker configuration, such as
// https://index.docker.io/v1/; "" if it has another path.
func dockerAuthHost(key string) string {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	host, path, _ := strings.Cut(key, "/")
	switch strings.Trim(path, "/") {
	case "", "v1", "v2":
	default:
		return ""
	}
	return registryHost(host)
}
