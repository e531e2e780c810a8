package run

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// DockerAuthConfig is the name of the secret that has registry credentials in the form of
// Docker's config.json, as in GitLab CI.
const DockerAuthConfig = "DOCKER_AUTH_CONFIG"

// addDockerAuth adds the credentials of the secret DockerAuthConfig, if it is one of these,
// for registries for which the task has none. Its passwords are masked in all tasks.
func (d *Definition) addDockerAuth(secrets map[string]Secret) {
	config, ok := secrets[DockerAuthConfig]
	if !ok {
		return
	}
	found, hidden, err := dockerAuth(config.Reveal())
	d.Secrets = longestFirst(append(slices.Clone(d.Secrets), masked(hidden)...))
	if d.Image == "" {
		return
	}
	if err != nil {
		d.Fault = err.Error()
		return
	}
	for host, a := range found {
		d.addAuth(host, a)
	}
}

// addAuth adds credentials for a registry for which the task has none.
func (d *Definition) addAuth(host string, a Auth) {
	if _, own := d.Auth[host]; own {
		return
	}
	if d.Auth == nil {
		d.Auth = make(map[string]Auth)
	}
	d.Auth[host] = a
}

// dockerAuth returns the credentials in a Docker configuration by host, and what is to be
// masked of it, also after an error. It ignores entries for paths, entries with a token,
// and helpers. Errors show no content. Errors: invalid.
func dockerAuth(config string) (found map[string]Auth, hidden map[string]Secret, err error) {
	if strings.TrimSpace(config) == "" {
		return nil, nil, nil
	}
	var c struct {
		Auths map[string]struct{ Auth, Username, Password, IdentityToken, RegistryToken string } `json:"auths"`
	}
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return nil, nil, Errorf(CodeInvalid, `the secret %s is not JSON of the form {"auths": {"ghcr.io": {"auth": "..."}}}`, DockerAuthConfig)
	}
	found, hidden = make(map[string]Auth, len(c.Auths)), make(map[string]Secret)
	for _, key := range slices.Sorted(maps.Keys(c.Auths)) {
		x, host := c.Auths[key], dockerAuthHost(key)
		a := Auth{Username: x.Username, Password: x.Password}
		token := x.IdentityToken != "" || x.RegistryToken != "" // a user beside it has no password
		if x.Auth != "" {
			text, fault := base64.StdEncoding.DecodeString(x.Auth)
			user, password, ok := strings.Cut(string(text), ":")
			if (fault != nil || !ok) && !token && err == nil {
				err = Errorf(CodeInvalid, "the secret %s has credentials for %s that are not user:password in base64", DockerAuthConfig, cmp.Or(host, "a path"))
			}
			// Docker's own client ignores NUL bytes around a password.
			a = Auth{Username: user, Password: strings.Trim(password, "\x00")}
		}
		for i, text := range []string{x.Auth, x.Password, a.Password, x.IdentityToken, x.RegistryToken} {
			hidden[fmt.Sprint(i, key)] = Secret(text)
		}
		if _, twice := found[host]; host != "" && a.Username != "" && !token && !twice {
			found[host] = a
		}
	}
	return found, hidden, err
}

// dockerAuthHost returns the host of a key of a Docker configuration, such as
// https://index.docker.io/v1/; "" if it has another path, or is no host.
func dockerAuthHost(key string) string {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	host, path, _ := strings.Cut(key, "/")
	switch strings.Trim(path, "/") {
	case "", "v1", "v2":
	default:
		return ""
	}
	if host = registryHost(host); CheckImagePrefix(host) != nil {
		return ""
	}
	return host
}
