package secrets_test

import (
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/secrets"
	"github.com/drover-run/drover/run"
)

// open creates a set from the text of a configuration file.
func open(t *testing.T, text string) (*secrets.Set, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "providers.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return secrets.Open(path, os.LookupEnv, slog.New(slog.DiscardHandler))
}

func resolve(t *testing.T, s *secrets.Set, group string, ref run.SecretRef) (string, error) {
	t.Helper()
	out, err := s.Resolve(t.Context(), group, map[string]run.SecretRef{"S": ref})
	return out["S"].Reveal(), err
}

func TestSet(t *testing.T) {
	dir := t.TempDir()
	variable, file, line, outside := rand.Text(), rand.Text(), rand.Text(), rand.Text()
	t.Setenv("CI_SECRET_TOKEN", variable)
	t.Setenv("TOKEN", outside)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "in", "..data"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "in", "..data", "db"), []byte(file+"\r\n"), 0o600))
	require.NoError(t, os.Symlink("..data/db", filepath.Join(dir, "in", "db")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "in", "lines"), []byte(line+"\n"+line+"\n\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "in", "long"), make([]byte, run.MaxVariableBytes), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "in", "nul"), []byte("a\x00b"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "outside"), []byte(outside), 0o600))
	require.NoError(t, os.Symlink("../outside", filepath.Join(dir, "in", "link")))
	s, err := open(t, "providers:\n  ci: {type: env, prefix: CI_SECRET_, groups: [/a, /b/c/]}\n  files: {type: file, dir: "+filepath.Join(dir, "in")+"}\n")
	require.NoError(t, err)

	for name, c := range map[string]struct {
		group string
		ref   run.SecretRef
		value string
		code  run.Code
		text  string
	}{
		"variable":               {"/a/x", run.SecretRef{Provider: "ci", Name: "TOKEN"}, variable, "", ""},
		"variable, group itself": {"/b/c", run.SecretRef{Provider: "ci", Name: "TOKEN"}, variable, "", ""},
		"group beside":           {"/ab/x", run.SecretRef{Provider: "ci", Name: "TOKEN"}, "", run.CodeForbidden, "is not for runs of /ab/x"},
		"no such variable":       {"/a/x", run.SecretRef{Provider: "ci", Name: "X"}, "", run.CodeNotFound, "no variable CI_SECRET_X"},
		"variable with key":      {"/a/x", run.SecretRef{Provider: "ci", Name: "TOKEN", Key: "k"}, "", run.CodeInvalid, "has no keys"},
		"no such provider":       {"/a/x", run.SecretRef{Provider: "vault", Name: "X"}, "", run.CodeNotFound, "there are ci, files"},
		"file behind a link":     {"/z/z", run.SecretRef{Provider: "files", Name: "db"}, file, "", ""},
		"lines":                  {"/z/z", run.SecretRef{Provider: "files", Name: "lines"}, line + "\n" + line + "\n", "", ""},
		"no such file":           {"/z/z", run.SecretRef{Provider: "files", Name: "x/y"}, "", run.CodeNotFound, "no file x/y"},
		"directory":              {"/z/z", run.SecretRef{Provider: "files", Name: "..data"}, "", run.CodeForbidden, "cannot be read"},
		"link to outside":        {"/z/z", run.SecretRef{Provider: "files", Name: "link"}, "", run.CodeForbidden, "cannot be read"},
		"path to outside":        {"/z/z", run.SecretRef{Provider: "files", Name: "../outside"}, "", run.CodeInvalid, "not a path below"},
		"absolute path":          {"/z/z", run.SecretRef{Provider: "files", Name: filepath.Join(dir, "outside")}, "", run.CodeInvalid, "not a path below"},
		"too long":               {"/z/z", run.SecretRef{Provider: "files", Name: "long"}, "", run.CodeInvalid, "a variable must have less"},
		"NUL byte":               {"/z/z", run.SecretRef{Provider: "files", Name: "nul"}, "", run.CodeInvalid, "NUL byte"},
	} {
		t.Run(name, func(t *testing.T) {
			value, err := resolve(t, s, c.group, c.ref)
			require.Equal(t, c.code, run.CodeOf(err), "%v", err)
			require.Equal(t, c.value, value)
			if c.text != "" {
				require.ErrorContains(t, err, c.text)
				require.ErrorContains(t, err, "the secret S: ")
				require.NotContains(t, err.Error(), outside)
			}
		})
	}
}

// Runs cannot use a provider for pools, and pools no other.
func TestSet_pools(t *testing.T) {
	t.Parallel()
	variables := map[string]string{"CI_TOKEN": "of runs", "PULL_MIRROR": "of pools"}
	path := filepath.Join(t.TempDir(), "providers.yaml")
	require.NoError(t, os.WriteFile(path, []byte("providers: {ci: {type: env, prefix: CI_}, pull: {type: env, prefix: PULL_, pools: true}}"), 0o600))
	s, err := secrets.Open(path, func(name string) (string, bool) { value, ok := variables[name]; return value, ok }, slog.New(slog.DiscardHandler))
	require.NoError(t, err)

	pull := run.SecretRef{Provider: "pull", Name: "MIRROR"}
	require.Equal(t, run.CodeForbidden, run.CodeOf(s.Check("/a/b", pull)))
	value, err := resolve(t, s, "/a/b", pull)
	require.Equal(t, run.CodeForbidden, run.CodeOf(err))
	require.Empty(t, value)
	err = s.Check("/a/b", run.SecretRef{Provider: "x", Name: "y"})
	require.ErrorContains(t, err, "there are ci")
	require.NotContains(t, err.Error(), "pull")

	require.NoError(t, s.CheckPool(pull))
	require.ErrorContains(t, s.CheckPool(run.SecretRef{Provider: "x", Name: "y"}), "there are pull")
	require.Equal(t, run.CodeForbidden, run.CodeOf(s.CheckPool(run.SecretRef{Provider: "ci", Name: "TOKEN"})))
	require.Equal(t, run.CodeInvalid, run.CodeOf(s.CheckPool(run.SecretRef{Provider: "pull", Name: "MIRROR", Key: "k"})), "the provider has no keys")
	passwords, failed := s.ResolvePool(t.Context(), map[string]run.SecretRef{
		"mirror.example.com": pull, "ghcr.io": {Provider: "ci", Name: "TOKEN"}, "quay.io": {Provider: "pull", Name: "QUAY"},
	})
	require.Equal(t, map[string]run.Secret{"mirror.example.com": "of pools"}, passwords)
	require.Len(t, failed, 2)
	require.Equal(t, run.CodeForbidden, run.CodeOf(failed["ghcr.io"]))
	require.Equal(t, run.CodeNotFound, run.CodeOf(failed["quay.io"]))
}

func TestSet_without_providers(t *testing.T) {
	t.Parallel()
	s, err := secrets.Open("", os.LookupEnv, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.ErrorContains(t, s.Check("/a/b", run.SecretRef{Provider: "x", Name: "y"}), "none is configured (gateway.secret_providers_file)")
}

func TestOpen_faults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":      {"providers: {a: {type: env, prefix: x, suffix: y}}", "there is no key \"suffix\""},
		"unknown type":     {"providers: {a: {type: consul}}", `providers.a: the type is "consul"; it must be env, file or vault`},
		"no prefix":        {"providers: {a: {type: env}}", "providers.a: it needs a prefix"},
		"relative dir":     {"providers: {a: {type: file, dir: secrets}}", "must be an absolute path"},
		"relative group":   {"providers: {a: {type: env, prefix: x, groups: [a]}}", `the group "a" does not begin with a slash`},
		"groups and pools": {"providers: {a: {type: env, prefix: x, groups: [/a], pools: true}}", "is for no run, so it has no groups"},
		"no login":         {"providers: {a: {type: vault}}", "either token_file or approle"},
		"half a role":      {"providers: {a: {type: vault, approle: {role_id: x}}}", "approle needs role_id and secret_id_file"},
		"all faults":       {"providers: {a: {type: env}, b: {type: file}}", "providers.b: dir is"},
		"no such CA":       {"providers: {a: {type: vault, token_file: /x, ca_cert_file: /no/such}}", "read ca_cert_file"},
		"not YAML":         {"providers: [", "read "},
		"list of provider": {"providers: [{type: env}]", "a list where a map is expected"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := open(t, c.text)
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := secrets.Open("/no/such/file", nil, nil)
	require.ErrorContains(t, err, "read the providers of secrets")
}

// A run must not reach the secrets of a pools' provider through another provider.
func TestOpen_keeps_pools_apart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "pools"), 0o700))
	require.NoError(t, os.Symlink(filepath.Join(dir, "pools"), filepath.Join(dir, "link")))
	const login = "token_file: /token"
	for name, c := range map[string]struct {
		runs, pools string
		apart       bool
	}{
		"environment, same":          {"type: env, prefix: CI_", "type: env, prefix: CI_", false},
		"environment, longer":        {"type: env, prefix: CI_", "type: env, prefix: CI_PULL_", false},
		"environment, shorter":       {"type: env, prefix: CI_PULL_", "type: env, prefix: CI", false},
		"environment, other":         {"type: env, prefix: CI_", "type: env, prefix: PULL_", true},
		"directory within":           {"type: file, dir: " + dir, "type: file, dir: " + dir + "/pools", false},
		"directory around":           {"type: file, dir: " + dir + "/pools/a", "type: file, dir: " + dir + "/pools", false},
		"directory behind a link":    {"type: file, dir: " + dir + "/link", "type: file, dir: " + dir + "/pools", false},
		"directory beside":           {"type: file, dir: " + dir + "/pool", "type: file, dir: " + dir + "/pools", true},
		"Vault, everything":          {"type: vault, " + login, "type: vault, prefix: pools/, " + login, false},
		"Vault, default mount":       {"type: vault, mount: secret, " + login, "type: vault, " + login, false},
		"Vault, other prefix":        {"type: vault, prefix: drover/, " + login, "type: vault, prefix: drover-pools/, " + login, true},
		"Vault, other mount":         {"type: vault, mount: a, " + login, "type: vault, mount: b, " + login, true},
		"Vault, other address":       {"type: vault, address: 'https://a', " + login, "type: vault, address: 'https://b', " + login, true},
		"Vault, other namespace":     {"type: vault, namespace: a, " + login, "type: vault, namespace: b, " + login, true},
		"Vault, other rights":        {"type: vault, " + login, "type: vault, token_file: /other", true},
		"Vault, other kind of login": {"type: vault, " + login, "type: vault, approle: {role_id: a, secret_id_file: /a}", true},
		"Vault, same role":           {"type: vault, approle: {role_id: a, secret_id_file: /a}", "type: vault, approle: {role_id: a, secret_id_file: /b, mount: approle}", false},
		"other type":                 {"type: env, prefix: CI_", "type: file, dir: " + dir, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := open(t, "providers: {ci: {"+c.runs+"}, pull: {"+c.pools+", pools: true}}")
			if c.apart {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "providers.pull: runs could read its secrets through providers.ci")
			}
		})
	}
}
