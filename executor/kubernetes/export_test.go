package kubernetes

import (
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
)

// DocumentedRole returns the Role of docs/kubernetes.md.
func DocumentedRole(t testing.TB) rbacv1.Role {
	t.Helper()
	return documentedRole(t)
}

// SetKeepalive sets how long the shim's reader is silent before it prints an empty
// line as a keepalive.
func (d *Driver) SetKeepalive(each time.Duration) { d.keepalive = each }
