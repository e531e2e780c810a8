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

// SetPulse makes the shim's reader print an empty line, and the driver miss
// it, after another silence.
func (d *Driver) SetPulse(each time.Duration) { d.pulse = each }
