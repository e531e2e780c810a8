package kubernetes

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// documentedRole returns the Role of docs/kubernetes.md.
func documentedRole(t testing.TB) rbacv1.Role {
	t.Helper()
	text, err := os.ReadFile("../../docs/kubernetes.md")
	require.NoError(t, err)
	_, block, found := strings.Cut(string(text), "```yaml\napiVersion: rbac")
	require.True(t, found)
	block, _, _ = strings.Cut("apiVersion: rbac"+block, "```")
	var role rbacv1.Role
	require.NoError(t, yaml.UnmarshalStrict([]byte(block), &role))
	return role
}

// setRules returns the rules that docs/sets.md adds to the Role.
func setRules(t testing.TB) []rbacv1.PolicyRule {
	t.Helper()
	text, err := os.ReadFile("../../docs/sets.md")
	require.NoError(t, err)
	_, rights, found := strings.Cut(string(text), "## Rights")
	require.True(t, found)
	_, block, found := strings.Cut(rights, "```yaml\n")
	require.True(t, found)
	block, _, _ = strings.Cut(block, "```")
	return rulesOf(t, block)
}

func rulesOf(t testing.TB, text string) []rbacv1.PolicyRule {
	t.Helper()
	var rules []rbacv1.PolicyRule
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &rules))
	return rules
}

func TestRights_are_documented(t *testing.T) {
	t.Parallel()
	chart, err := os.ReadFile("../../deploy/helm/drover/files/executor-rules.yaml")
	require.NoError(t, err)
	alone := documentedRole(t).Rules
	for name, tc := range map[string]struct {
		member bool
		rules  []rbacv1.PolicyRule
	}{
		"in the documents":               {false, alone},
		"in the documents, with the set": {true, slices.Concat(alone, setRules(t))},
		"in the chart":                   {true, rulesOf(t, string(chart))},
	} {
		granted, used := map[string]bool{}, map[string]bool{}
		for _, rule := range tc.rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					granted[verb+" "+rule.APIGroups[0]+" "+resource] = true
				}
			}
		}
		for _, n := range neededRights(tc.member) {
			resource := n.Resource
			if n.Subresource != "" {
				resource += "/" + n.Subresource
			}
			used[n.Verb+" "+n.Group+" "+resource] = true
		}
		require.Equal(t, used, granted, name)
	}
}
