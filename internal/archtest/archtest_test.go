// Package archtest checks the import rules that a linter of direct imports
// cannot check: the packages that a package imports indirectly.
package archtest_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/drover-run/drover"

// leaves import nothing of ours, and any package may import them.
var leaves = []string{"internal/jsonfault", "internal/reload", "internal/suggest", "internal/truncate", "internal/yamlfault"}

// importsOf lists all packages that the packages of a pattern import, directly or
// indirectly. The pattern may follow flags of go list.
func importsOf(t *testing.T, pattern string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps"}, strings.Fields(pattern)...)...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	require.NoError(t, err, pattern)
	return strings.Fields(string(out))
}

func TestImports(t *testing.T) {
	t.Parallel()
	tests := []struct {
		pattern string
		own     []string // the only packages of this module that may be imported; nil: any
		banned  []string // prefixes of packages that must not be imported
	}{
		{pattern: "./run/graph", own: []string{"run", "run/graph"}, banned: []string{"github.com/", "go.temporal.io"}},
		{pattern: "./run/auditlog", own: []string{"run", "run/auditlog"}, banned: []string{"github.com/", "go.temporal.io"}},
		{pattern: "./run/inputs", own: []string{"run", "run/inputs"}, banned: []string{"github.com/", "go.temporal.io"}},
		{pattern: "./run", own: []string{"run"}, banned: []string{"github.com/", "go.temporal.io", "golang.org/", "gopkg.in/"}},
		{pattern: "./spec/condition", own: []string{"spec/condition"}, banned: []string{"go.temporal.io", "google.golang.org/grpc"}},
		{pattern: "./spec/message", own: []string{"run", "spec/message"}, banned: []string{"github.com/", "go.temporal.io"}},
		{pattern: "./spec", own: []string{"run", "run/inputs", "spec", "spec/condition", "spec/message"}, banned: []string{"go.temporal.io"}},
		{pattern: "./contract", own: []string{"run", "run/graph", "contract"}},
		{pattern: "./workflows", own: []string{"run", "run/graph", "contract", "workflows"}},
		{pattern: "./cli", banned: []string{"go.temporal.io", module + "/engine", module + "/records", module + "/executor", module + "/gateway"}},
		{pattern: "./gateway", banned: []string{"go.temporal.io", module + "/engine", module + "/records", module + "/executor", module + "/workflows", module + "/activities"}},
		{pattern: "./executor/...", banned: []string{"go.temporal.io", module + "/records", module + "/blobs", module + "/engine", module + "/contract"}},
		{pattern: "./records/...", banned: []string{"go.temporal.io", module + "/executor", module + "/blobs", module + "/engine", module + "/contract"}},
		{pattern: "./fleeting", own: []string{"fleeting", "fleeting/wire", "internal/dirlock", "internal/durable"}, banned: []string{"go.temporal.io"}},
		{pattern: "./fleeting/fleetingtest", own: []string{"fleeting", "fleeting/wire", "fleeting/fleetingtest", "internal/dirlock", "internal/durable", "internal/retry"}, banned: []string{"go.temporal.io", "github.com/stretchr"}},
		{pattern: "./fleeting/fleetingtest/cloud", own: []string{"fleeting/fleetingtest/cloud", "internal/durable"}, banned: []string{"go.temporal.io"}},
		{pattern: "./fleeting/bootstrap", own: []string{"fleeting", "fleeting/wire", "fleeting/bootstrap", "internal/dirlock", "internal/durable"}, banned: []string{"go.temporal.io"}},
		{pattern: "./internal/tokens", own: []string{"run", "internal/roles", "internal/tokens"}, banned: []string{"go.temporal.io", "github.com/labstack"}},
		{pattern: "./internal/tokens/oidc", own: []string{"run", "internal/roles", "internal/tokens", "internal/tokens/oidc"}, banned: []string{"go.temporal.io", "github.com/labstack"}},
		{pattern: "./internal/roles", own: []string{"run", "internal/roles"}, banned: []string{"go.temporal.io", "github.com/labstack"}},
		{pattern: "./internal/archive", own: []string{"run", "internal/archive"}, banned: []string{"go.temporal.io", "google.golang.org"}},
		{pattern: "./internal/keyring", own: []string{"internal/keyring"}, banned: []string{"github.com/", "go.temporal.io"}},
		{pattern: "./internal/secrets", own: []string{"run", "internal/secrets"}, banned: []string{"go.temporal.io", "google.golang.org"}},
		{pattern: "./internal/codec", own: []string{"internal/keyring", "internal/codec"}},
		{pattern: "./relay", own: []string{"run", "run/graph", "contract", "internal/roles", "internal/tokens", "relay"}},
		{pattern: "./fleeting/scaling", own: []string{"run", "fleeting/scaling"}, banned: []string{"github.com/", "go.temporal.io"}},
		{pattern: "./fleeting/simulate", own: []string{"run", "fleeting/scaling", "fleeting/simulate"}, banned: []string{"github.com/", "go.temporal.io"}},
		{pattern: "./blobs", own: []string{"run", "blobs", "internal/durable"}, banned: []string{"go.temporal.io"}},
		{pattern: "./fleeting/controller", own: []string{"run", "run/auditlog", "records", "fleeting", "fleeting/wire", "fleeting/scaling", "internal/dirlock", "internal/durable", "internal/mask", "internal/retry", "fleeting/controller"}, banned: []string{"go.temporal.io"}},
		{pattern: "./webhooks", own: []string{"run", "run/auditlog", "records", "api", "internal/retry", "spec/message", "webhooks"}, banned: []string{"go.temporal.io"}},
		{pattern: "./engine", banned: []string{"go.temporal.io/server", module + "/workflows", module + "/activities", module + "/gateway", module + "/executor", module + "/internal/secrets"}},
		{pattern: "./engine/archives", own: []string{"run", "run/auditlog", "records", "internal/archive", "internal/mask", "engine/archives"}, banned: []string{"go.temporal.io"}},
		{pattern: "./engine/outbox", own: []string{"run", "run/graph", "contract", "internal/retry", "run/auditlog", "records", "engine/outbox"}},
		{pattern: "./engine/maintenance", own: []string{"run", "run/graph", "contract", "internal/retry", "run/auditlog", "records", "engine/outbox", "engine/maintenance"}},
		{pattern: "./activities", banned: []string{"go.temporal.io/server", module + "/workflows", module + "/workers", module + "/gateway", module + "/engine"}},
		{pattern: "./workers", banned: []string{"go.temporal.io/server", module + "/gateway", module + "/engine", module + "/executor/docker", module + "/executor/kubernetes", module + "/executor/shell"}},
		{pattern: "./internal/config", own: []string{"internal/config"}, banned: []string{"go.temporal.io"}},
		{pattern: "./internal/hostcheck", own: []string{"internal/hostcheck"}, banned: []string{"github.com/", "go.temporal.io"}},
		{pattern: "./internal/durable", own: []string{"internal/durable"}, banned: []string{"github.com/", "go.temporal.io"}},
		{pattern: "./internal/retry", own: []string{"internal/retry"}, banned: []string{"go.temporal.io"}},
		{pattern: "./internal/logging", own: []string{"internal/logging"}, banned: []string{"github.com/", "go.temporal.io", "golang.org/"}},
		{pattern: "./internal/reload", own: []string{"internal/reload"}, banned: []string{"github.com/", "go.temporal.io", "golang.org/"}},
		{pattern: "./internal/suggest", own: []string{"internal/suggest"}, banned: []string{"github.com/", "go.temporal.io", "golang.org/"}},
		{pattern: "./internal/truncate", own: []string{"internal/truncate"}, banned: []string{"github.com/", "go.temporal.io", "golang.org/"}},
		{pattern: "./internal/jsonfault", own: []string{"internal/jsonfault"}, banned: []string{"github.com/", "go.temporal.io"}},
		{pattern: "./internal/yamlfault", own: []string{"internal/yamlfault"}, banned: []string{"github.com/", "go.temporal.io"}},
		{pattern: "./internal/keylock", own: []string{"internal/keylock"}, banned: []string{"github.com/", "go.temporal.io"}},
		{pattern: "./activities/execution", own: []string{"run", "run/graph", "contract", "executor", "executor/agent", "executor/agent/archives", "executor/agent/frames", "executor/agent/registration", "executor/agent/sessions", "executor/agent/statedir", "executor/transfer", "internal/archive", "internal/dirlock", "internal/durable", "internal/execstream", "internal/mask", "internal/retry", "activities/errcode", "activities/execution"}},
		{pattern: "./cmd/drover-agent", banned: []string{
			"go.temporal.io/server", "modernc.org", "github.com/jackc", "github.com/labstack", "gocloud.dev", "github.com/aws", "cloud.google.com", "github.com/Azure",
			"github.com/hashicorp", "github.com/coreos/go-oidc", "k8s.io/client-go/kubernetes", "k8s.io/client-go/informers", "k8s.io/kube-openapi/pkg/util/proto", "github.com/google/gnostic-models", "cel.dev/cel-go",
			module + "/activities/fleet", module + "/blobs", module + "/engine", module + "/fleeting", module + "/gateway", module + "/records", module + "/relay", module + "/spec", module + "/workflows",
		}},
		{pattern: "-tags=noembedded ./cmd/drover", banned: []string{"go.temporal.io/server", module + "/internal/temporalite"}},
		{pattern: "./cmd/drover-shim", own: []string{"run", "executor/shim", "executor/shim/checkout", "executor/shim/helper", "executor/shim/journal", "executor/shim/process", "executor/shim/session", "executor/shim/stepenv", "executor/transfer", "internal/archive", "internal/durable", "internal/execstream", "internal/mask", "internal/retry", "internal/version", "cmd/drover-shim"}, banned: []string{"go.temporal.io", "google.golang.org"}},
	}
	for _, tt := range tests {
		t.Run(strings.TrimPrefix(tt.pattern, "./"), func(t *testing.T) {
			t.Parallel()
			for _, path := range importsOf(t, tt.pattern) {
				own, isOwn := strings.CutPrefix(path, module+"/")
				if isOwn && tt.own != nil && !slices.Contains(tt.own, own) && !slices.Contains(leaves, own) {
					t.Errorf("%s imports %s, which is not in its list", tt.pattern, path)
				}
				for _, prefix := range tt.banned {
					if strings.HasPrefix(path, prefix) && (!isOwn || tt.own == nil) {
						t.Errorf("%s imports %s, which is banned", tt.pattern, path)
					}
				}
			}
		})
	}
}
