package spec_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// TestReadFleet_priority: unlike a run's priority, 0 and less are allowed.
func TestReadFleet_priority(t *testing.T) {
	t.Parallel()
	for priority, want := range map[int][]string{-1001: {"priority out_of_range"}, -1000: nil, -1: nil, 0: nil, 1: nil, 1000: nil, 1001: {"priority out_of_range"}} {
		fleet, err := spec.ReadFleet(fmt.Appendf(nil, "pool: linux\nplugin: aws\npriority: %d\n", priority), spec.FormatYAML)
		require.NoError(t, err, priority)
		require.Equal(t, priority, fleet.Priority)
		require.Equal(t, want, found(spec.ValidateFleet("web", fleet.FleetSpec)), priority)
	}
}

func TestValidateFleet_protocol(t *testing.T) {
	t.Parallel()
	for protocol, want := range map[string][]string{
		"": nil, "ssh": nil, "telnet": {"connector_config.protocol bad_value"},
		"winrm": {"connector_config.protocol not_supported"}, "winrm+https": {"connector_config.protocol not_supported"},
	} {
		s := run.FleetSpec{Pool: "linux", Plugin: "aws", ConnectorConfig: run.FleetConnector{Protocol: protocol}}
		require.Equal(t, want, found(spec.ValidateFleet("linux", s)), protocol)
	}
}

func TestValidateFleet_instance_acquire_timeout(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[run.Duration][]string{
		0: nil, run.Duration(15 * time.Minute): nil,
		-1: {"instance_acquire_timeout out_of_range"}, run.Duration(25 * time.Hour): {"instance_acquire_timeout out_of_range"},
	} {
		require.Equal(t, want, found(spec.ValidateFleet("linux", run.FleetSpec{Pool: "linux", Plugin: "aws", InstanceAcquireTimeout: timeout})), timeout)
	}
}

func TestValidateFleet_allowed_groups(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		patterns, want []string
	}{
		{nil, nil},
		{[]string{"/**"}, nil},
		{[]string{"/acme/**", "/other/web/**"}, nil},
		{slices.Repeat([]string{"/a/**"}, run.MaxPoolGroups), nil},
		{slices.Repeat([]string{"/a/**"}, run.MaxPoolGroups+1), []string{"allowed_groups over_limit"}},
		{[]string{"/acme/**", "/acme"}, []string{"allowed_groups[1] bad_format"}},
		{[]string{"acme/**", "/a/../b/**", "/*/**", ""}, []string{
			"allowed_groups[0] bad_format", "allowed_groups[1] bad_format", "allowed_groups[2] bad_format", "allowed_groups[3] bad_format",
		}},
	} {
		require.Equal(t, tt.want, found(spec.ValidateFleet("linux", run.FleetSpec{Pool: "linux", Plugin: "aws", AllowedGroups: tt.patterns})), tt.patterns)
		require.Equal(t, tt.want, found(spec.ValidatePool(run.Pool{Name: "linux", Driver: "docker", AllowedGroups: tt.patterns})), tt.patterns)
	}
}

func TestValidateFleet_plugin(t *testing.T) {
	t.Parallel()
	for plugin, want := range map[string][]string{
		"aws": nil, "aws:1.2": nil, "example.com/a/b": nil, "/usr/lib/drover/plugins/cloud": nil, "a..b": nil,
		"": {"plugin required"}, "../a": {"plugin bad_format"}, "/usr/lib/drover/plugins/../a": {"plugin bad_format"}, "..": {"plugin bad_format"},
	} {
		require.Equal(t, want, found(spec.ValidateFleet("linux", run.FleetSpec{Pool: "linux", Plugin: plugin})), plugin)
	}
}

func TestValidateFleet_update(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"{}":                                       nil,
		"{max_surge: 2}":                           nil,
		"{max_surge: 0, max_unavailable: 10%}":     nil,
		"{max_surge: 100%, max_unavailable: 0%}":   nil,
		"{max_surge: '3', max_unavailable: '50%'}": nil,
		"{max_surge: 0%, max_unavailable: 0}":      {"update.max_unavailable contradiction"},
		"{max_surge: -1}":                          {"update.max_surge bad_format"},
		"{max_surge: 1.5}":                         {"update.max_surge bad_format"},
		"{max_unavailable: many}":                  {"update.max_unavailable bad_format"},
		"{max_unavailable: 101%}":                  {"update.max_unavailable out_of_range"},
	} {
		f, err := spec.ReadFleet([]byte("{pool: linux, plugin: docker, update: "+text+"}"), spec.FormatYAML)
		require.NoError(t, err, text)
		require.Equal(t, want, found(spec.ValidateFleet("linux", f.FleetSpec)), text)
	}
}
