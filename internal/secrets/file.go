package secrets

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/internal/yamlfault"
)

// The kinds of providers.
const (
	typeEnv   = "env"
	typeFile  = "file"
	typeVault = "vault"
)

// settings are the settings of one provider of any type.
type settings struct {
	Type   string   `yaml:"type"`
	Groups []string `yaml:"groups"`
	Pools  bool     `yaml:"pools"`
	Prefix string   `yaml:"prefix"` // env: of variables; vault: of paths
	Dir    string   `yaml:"dir"`    // file

	Address   string   `yaml:"address"` // vault, like all that follow
	Mount     string   `yaml:"mount"`
	Namespace string   `yaml:"namespace"`
	CAFile    string   `yaml:"ca_cert_file"`
	TokenFile string   `yaml:"token_file"`
	AppRole   *appRole `yaml:"approle"`
}

// appRole is the login of a machine at Vault.
type appRole struct {
	Mount        string `yaml:"mount"`
	RoleID       string `yaml:"role_id"`
	SecretIDFile string `yaml:"secret_id_file"`
}

// Open reads the configuration file of providers, and creates them; "" means no
// providers. It does not connect to them. lookup reads the process's
// environment. docs/secrets.md describes the file.
func Open(path string, lookup func(name string) (string, bool), log *slog.Logger) (*Set, error) {
	if path == "" {
		return &Set{log: log}, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the providers of secrets: %w", err)
	}
	var file struct {
		Providers map[string]settings `yaml:"providers"`
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", path, yamlfault.Error(data, err, file))
	}
	s := &Set{entries: make(map[string]entry, len(file.Providers)), log: log}
	var faults []error
	for name, x := range file.Providers {
		p, err := x.open(lookup)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: providers.%s: %w", path, name, err))
			continue
		}
		s.entries[name] = entry{provider: p, groups: x.Groups, pools: x.Pools}
	}
	faults = append(faults, sharedWithRuns(path, file.Providers)...)
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return s, errors.Join(faults...)
}

// sharedWithRuns returns a fault for each provider of pools whose secrets runs could read
// through another one.
func sharedWithRuns(path string, all map[string]settings) []error {
	var faults []error
	for name, pools := range all {
		for other, runs := range all {
			if pools.Pools && !runs.Pools && pools.overlaps(runs) {
				faults = append(faults, fmt.Errorf("%s: providers.%s: runs could read its secrets through providers.%s: give them prefixes or directories of which none begins with the other",
					path, name, other))
			}
		}
	}
	return faults
}

// overlaps reports whether two providers may have a secret in common. Providers of Vault
// with different logins have none: their policies decide.
func (x settings) overlaps(y settings) bool {
	within := func(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }
	switch {
	case x.Type != y.Type:
		return false
	case x.Type == typeEnv:
		return within(x.Prefix, y.Prefix)
	case x.Type == typeFile:
		return within(realPath(x.Dir), realPath(y.Dir))
	case x.Type == typeVault:
		return within(x.Prefix, y.Prefix) && x.Address == y.Address && x.Namespace == y.Namespace && cmp.Or(x.Mount, defaultMount) == cmp.Or(y.Mount, defaultMount) && x.sameLogin(y)
	}
	return false
}

// sameLogin reports whether two providers of Vault have the same rights.
func (x settings) sameLogin(y settings) bool {
	if x.AppRole == nil || y.AppRole == nil {
		return x.AppRole == y.AppRole && x.TokenFile == y.TokenFile
	}
	return x.AppRole.RoleID == y.AppRole.RoleID && cmp.Or(x.AppRole.Mount, defaultAppRole) == cmp.Or(y.AppRole.Mount, defaultAppRole)
}

// realPath returns the path of a directory without symbolic links, and with a final
// separator, so that only directories within it begin with it.
func realPath(dir string) string {
	if path, err := filepath.EvalSymlinks(dir); err == nil {
		dir = path
	}
	return strings.TrimSuffix(filepath.Clean(dir), string(filepath.Separator)) + string(filepath.Separator)
}

// DefaultProvider is the provider of the set that Environment returns, and
// DefaultPrefix begins the names of the variables that it provides.
const (
	DefaultProvider = "env"
	DefaultPrefix   = "SECRET_"
)

// Environment returns a set with one provider for the runs of all groups: it
// provides the variables of the process whose names begin with DefaultPrefix.
func Environment(lookup func(name string) (string, bool), log *slog.Logger) *Set {
	return &Set{entries: map[string]entry{DefaultProvider: {provider: environment{prefix: DefaultPrefix, lookup: lookup}}}, log: log}
}

func (x settings) open(lookup func(string) (string, bool)) (Provider, error) {
	for _, g := range x.Groups {
		if !strings.HasPrefix(g, "/") {
			return nil, fmt.Errorf("the group %q does not begin with a slash", g)
		}
	}
	if x.Pools && len(x.Groups) > 0 {
		return nil, errors.New("a provider with pools: true is for no run, so it has no groups")
	}
	switch x.Type {
	case typeEnv:
		return newEnvironment(x, lookup)
	case typeFile:
		return newDirectory(x)
	case typeVault:
		return newVault(x)
	}
	return nil, fmt.Errorf("the type is %q; it must be %s, %s or %s", x.Type, typeEnv, typeFile, typeVault)
}
