package kubernetes

import (
	"os"
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

func TestRights_are_documented(t *testing.T) {
	t.Parallel()
	documented, used := map[string]bool{}, map[string]bool{}
	for _, rule := range documentedRole(t).Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				documented[verb+" "+resource] = true
			}
		}
	}
	for _, n := range needed(false) {
		name := n.Verb + " " + n.Resource
		if n.Subresource != "" {
			name += "/" + n.Subresource
		}
		used[name] = true
	}
	require.Equal(t, used, documented)
}
