package roles_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/durable"
	"github.com/drover-run/drover/internal/roles"
	"github.com/drover-run/drover/internal/testenv"
)

func bound(role roles.Role, groups ...string) roles.Binding {
	return roles.Binding{Role: role, Groups: groups}
}

func TestBindings_Allows(t *testing.T) {
	t.Parallel()
	b := roles.Bindings{bound(roles.Viewer, "/acme/**"), bound(roles.Approver, "/acme/web/**", "/x/y/**")}
	for group, want := range map[string][2]bool{
		"/acme": {true, false}, "/acme/web": {true, true}, "/acme/web/1": {true, true}, "/acme/webs": {true, false}, "/acmes": {}, "": {}, "/": {}, "/x/y/z": {true, true}, "/x": {},
	} {
		require.Equal(t, want, [2]bool{b.Allows(roles.View, group), b.Allows(roles.Approve, group)}, group)
		require.False(t, b.Allows(roles.Submit, group), group)
	}
	all := roles.Bindings{bound(roles.Operator, "/**")}
	require.True(t, all.Allows(roles.Operate, ""))
	require.True(t, all.Allows(roles.Approve, "/any"))
	require.False(t, all.Allows(roles.Administer, ""))
	require.False(t, roles.Bindings(nil).Allows(roles.View, ""))
}

// TestBindings_cases: the web UI decides by the same cases, so that it offers what the
// gateway allows. Its tests read the file too.
func TestBindings_cases(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/cases.json")
	require.NoError(t, err)
	var file struct {
		Roles map[roles.Role][]roles.Permission
		Needs map[roles.Permission]string
		Cases []struct {
			Name       string
			Bindings   roles.Bindings
			Permission roles.Permission
			Paths      []string
			Groups     map[string]bool
		}
	}
	require.NoError(t, json.Unmarshal(data, &file))
	table, needs := map[roles.Role][]roles.Permission{}, map[roles.Permission]string{}
	for _, role := range roles.All() {
		for _, p := range []roles.Permission{roles.View, roles.Submit, roles.Approve, roles.Operate, roles.Administer} {
			needs[p] = roles.Needs(p)
			if role.Allows(p) {
				table[role] = append(table[role], p)
			}
		}
	}
	require.Equal(t, file.Roles, table)
	require.Equal(t, file.Needs, needs)
	for _, c := range file.Cases {
		require.ElementsMatch(t, c.Paths, c.Bindings.Paths(c.Permission), c.Name)
		for group, want := range c.Groups {
			require.Equal(t, want, c.Bindings.Allows(c.Permission, group), "%s: %q", c.Name, group)
		}
	}
}

func TestBindings_Within(t *testing.T) {
	t.Parallel()
	b := roles.Bindings{bound(roles.Viewer, "/acme/**", "/acme/web/**", "/x/y/**")}
	for of, want := range map[string][]string{
		"": {"/acme", "/x/y"}, "/": {"/acme", "/x/y"}, "/acme/web": {"/acme/web"}, "/acme/": {"/acme"}, "/x": {"/x/y"}, "/z": nil, "/acm": nil,
	} {
		require.Equal(t, want, b.Within(roles.View, []string{of}), of)
	}
	require.Equal(t, []string{"/acme/a", "/x/y"}, b.Within(roles.View, []string{"/x/", "/acme/a", "/acme/a/b"}))
	require.Equal(t, []string{""}, roles.Bindings{bound(roles.Admin, "/**", "/a/**")}.Within(roles.View, nil))
	require.Empty(t, b.Within(roles.Submit, nil))
}

func TestBindings_Validate(t *testing.T) {
	t.Parallel()
	require.NoError(t, roles.Bindings{bound(roles.Viewer, "/**", "/a/b c/**")}.Validate())
	for want, b := range map[string]roles.Binding{
		"not a role": bound("owner", "/**"), "bound to no groups": bound(roles.Admin), `"/acme" is not`: bound(roles.Admin, "/acme"),
		`"acme/**"`: bound(roles.Admin, "acme/**"), `"/a*/**"`: bound(roles.Admin, "/a*/**"), `"/a//**"`: bound(roles.Admin, "/a//**"),
		`"/a/../**"`: bound(roles.Admin, "/a/../**"), `"//**"`: bound(roles.Admin, "//**"), `"**"`: bound(roles.Admin, "**"),
	} {
		require.ErrorContains(t, roles.Bindings{b}.Validate(), want)
	}
	require.ErrorContains(t, roles.Bindings{bound(roles.Admin, make([]string, 51)...)}.Validate(), "the limit is 50")
}

// bindingsOf returns the bindings of a subject that is a member of groups.
func bindingsOf(t *testing.T, s roles.Subjects, subject string, memberOf ...string) roles.Bindings {
	t.Helper()
	b, err := s.BindingsOf(subject, memberOf)
	require.NoError(t, err)
	return b
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	p, err := roles.ReadPolicy([]byte("- {members: web, role: submitter, groups: [/acme/**]}\n- {subject: ana, role: admin, groups: [/**]}\n"))
	require.NoError(t, err)
	require.Equal(t, roles.Bindings{bound(roles.Submitter, "/acme/**")}, bindingsOf(t, p, "bob", "x", "web"))
	require.Len(t, bindingsOf(t, p, "ana", "web"), 2)
	require.Empty(t, bindingsOf(t, p, "web", "ana"))
	require.Empty(t, bindingsOf(t, p, "", ""))
	p, err = roles.ReadPolicy(nil)
	require.NoError(t, err)
	require.Empty(t, bindingsOf(t, p, "ana"))
	for text, want := range map[string]string{
		"- {role: admin, groups: [/**]}": "names either", "- {subject: a, members: b, role: admin, groups: [/**]}": "names either",
		"- {subject: a, role: admin}": "no groups", "- {subject: a, roles: admin, groups: [/**]}": "there is no key",
	} {
		_, err := roles.ReadPolicy([]byte(text))
		require.ErrorContains(t, err, want)
	}
}

// Grants of the same role are one binding, without groups that are below others: several
// groups of a user may have the same.
func TestPolicy_merges_grants(t *testing.T) {
	t.Parallel()
	p := roles.Policy{
		{Subject: "*", Binding: bound(roles.Viewer, "/shared/**")},
		{Members: "web", Binding: bound(roles.Submitter, "/acme/web/**", "/acme/api/**")},
		{Members: "dev", Binding: bound(roles.Submitter, "/acme/**", "/shared/**")},
		{Subject: "ana", Binding: bound(roles.Viewer, "/shared/**", "/x/**")},
		{Subject: "root", Binding: bound(roles.Admin, "/**", "/acme/**")},
	}
	for name, tt := range map[string]struct {
		subject string
		groups  []string
		want    roles.Bindings
	}{
		"all":           {"bob", nil, roles.Bindings{bound(roles.Viewer, "/shared/**")}},
		"a_group":       {"bob", []string{"web"}, roles.Bindings{bound(roles.Viewer, "/shared/**"), bound(roles.Submitter, "/acme/api/**", "/acme/web/**")}},
		"two_groups":    {"bob", []string{"web", "dev"}, roles.Bindings{bound(roles.Viewer, "/shared/**"), bound(roles.Submitter, "/acme/**", "/shared/**")}},
		"a_subject":     {"ana", nil, roles.Bindings{bound(roles.Viewer, "/shared/**", "/x/**")}},
		"everywhere":    {"root", nil, roles.Bindings{bound(roles.Viewer, "/shared/**"), bound(roles.Admin, "/**")}},
		"another_group": {"bob", []string{"*", "ana"}, roles.Bindings{bound(roles.Viewer, "/shared/**")}},
	} {
		require.Equal(t, tt.want, bindingsOf(t, p, tt.subject, tt.groups...), name)
	}
}

// lines is the text of a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestOpenFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "roles.yaml")
	write := func(text string) { require.NoError(t, durable.WriteFile(path, []byte(text))) }
	logged := &lines{}
	log := slog.New(slog.NewTextHandler(logged, nil))
	_, err := roles.OpenFile(path, "", log)
	require.ErrorIs(t, err, fs.ErrNotExist)
	write("- {members: web, role: owner, groups: [/acme/**]}\n- {role: admin, groups: [/**]}\n")
	_, err = roles.OpenFile(path, "", log)
	require.ErrorContains(t, err, `grant 1: "owner" is not a role`)
	require.ErrorContains(t, err, "grant 2: it names either")
	require.ErrorContains(t, err, path)

	write("- {members: web, role: submitter, groups: [/acme/**]}\n")
	f, err := roles.OpenFile(path, "", log)
	require.NoError(t, err)
	await := func(want roles.Bindings) {
		testenv.Await(t, func() (bool, string) {
			got := bindingsOf(t, f, "ana", "web")
			return reflect.DeepEqual(want, got), fmt.Sprint(got)
		})
	}
	await(roles.Bindings{bound(roles.Submitter, "/acme/**")})
	write("- {subject: ana, role: viewer, groups: [/acme/**]}\n")
	await(roles.Bindings{bound(roles.Viewer, "/acme/**")})
	write("- {subject: ana, role: owner, groups: [/acme/**]}\n")
	testenv.Await(t, func() (bool, string) {
		_, text := bindingsOf(t, f, "ana"), logged.String()
		return strings.Contains(text, "previous content stays in use") && strings.Contains(text, "is not a role"), text
	})
	await(roles.Bindings{bound(roles.Viewer, "/acme/**")})
	write("")
	await(nil)
}

// TestOpenFile_with_the_prefix warns about users named with the prefix: a gateway starts
// with such a file, and the grant means what it says.
func TestOpenFile_with_the_prefix(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "roles.yaml")
	write := func(text string) { require.NoError(t, durable.WriteFile(path, []byte(text))) }
	logged := &lines{}
	log := slog.New(slog.NewJSONHandler(logged, nil))
	write("- {members: 'oidc:web', role: viewer, groups: [/acme/**]}\n- {subject: 'oidc:ana', role: viewer, groups: [/acme/**]}\n")
	f, err := roles.OpenFile(path, "oidc:", log)
	require.NoError(t, err)
	require.Equal(t, roles.Bindings{bound(roles.Viewer, "/acme/**")}, bindingsOf(t, f, "oidc:ana"))
	require.Contains(t, logged.String(), `"grant":2,"reason":"the user is named as the provider does, without oidc: (gateway.oidc.subject_prefix): ana"`)
	require.Equal(t, 1, strings.Count(logged.String(), `"level":"WARN"`), "the prefix is not one of groups: %s", logged)

	write("- {subject: 'oidc:ben', role: admin, groups: [/acme/**]}\n")
	testenv.Await(t, func() (bool, string) {
		got, text := bindingsOf(t, f, "oidc:ben"), logged.String()
		return len(got) == 1 && strings.Contains(text, `"grant":1,"reason":"the user is named as the provider does, without oidc: (gateway.oidc.subject_prefix): ben"`), text
	})

	quiet := &lines{}
	write("- {subject: 'auth0|123', role: viewer, groups: [/acme/**]}\n")
	f, err = roles.OpenFile(path, "auth0|", slog.New(slog.NewTextHandler(quiet, nil)))
	require.NoError(t, err)
	require.Equal(t, roles.Bindings{bound(roles.Viewer, "/acme/**")}, bindingsOf(t, f, "auth0|123"), "the provider names the user so")
	require.Empty(t, quiet.String())
}
