//go:build linux

package process_test

import (
	"crypto/rand"
	"testing"

	"gitlab.com/gitlab-org/fleeting/fleeting/integration"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"
)

// TestProvisioning runs the conformance test of the fleeting project.
func TestProvisioning(t *testing.T) {
	t.Parallel()
	server := integration.BuildPluginBinary(t, "../internal/sshserver", "sshserver")
	password := rand.Text()
	integration.TestProvisioning(t, integration.BuildPluginBinary(t, "../cmd/fleeting-plugin-process", "fleeting-plugin-process"), integration.Config{
		PluginConfig: map[string]any{
			"name": "ecosystem", "state_dir": t.TempDir(), "max_size": 3, "wait_for_address": true, "stop_timeout": "5s",
			"command": []string{server, "-address-file", "{{.Dir}}/address"}, "env": map[string]string{"SSH_PASSWORD": password},
		},
		ConnectorConfig: provider.ConnectorConfig{Username: "tester", Password: password, UseStaticCredentials: true},
		MaxInstances:    3,
	})
}
