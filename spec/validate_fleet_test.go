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
