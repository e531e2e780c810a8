package spec_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

func TestValidateFleet_plugin(t *testing.T) {
	t.Parallel()
	for plugin, want := range map[string][]string{
		"aws": nil, "aws:1.2": nil, "example.com/a/b": nil, "/usr/lib/drover/plugins/cloud": nil, "a..b": nil,
		"": {"plugin required"}, "../a": {"plugin bad_format"}, "/usr/lib/drover/plugins/../a": {"plugin bad_format"}, "..": {"plugin bad_format"},
	} {
		require.Equal(t, want, found(spec.ValidateFleet("linux", run.FleetSpec{Pool: "linux", Plugin: plugin})), plugin)
	}
}
