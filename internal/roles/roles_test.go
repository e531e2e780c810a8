package roles_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/roles"
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

func TestPolicy(t *testing.T) {
	t.Parallel()
	p, err := roles.ReadPolicy([]byte("- {members: web, role: submitter, groups: [/acme/**]}\n- {subject: ana, role: admin, groups: [/**]}\n"))
	require.NoError(t, err)
	require.Equal(t, roles.Bindings{bound(roles.Submitter, "/acme/**")}, p.BindingsOf("bob", []string{"x", "web"}))
	require.Len(t, p.BindingsOf("ana", []string{"web"}), 2)
	require.Empty(t, p.BindingsOf("web", []string{"ana"}))
	require.Empty(t, p.BindingsOf("", []string{""}))
	for text, want := range map[string]string{
		"- {role: admin, groups: [/**]}": "names either", "- {subject: a, members: b, role: admin, groups: [/**]}": "names either",
		"- {subject: a, role: admin}": "no groups", "- {subject: a, roles: admin, groups: [/**]}": "not found",
	} {
		_, err := roles.ReadPolicy([]byte(text))
		require.ErrorContains(t, err, want)
	}
}
