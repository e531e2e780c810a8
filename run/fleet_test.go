package run_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

func TestFleetUpdate_bounds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		update                   run.FleetUpdate
		size, surge, unavailable int
	}{
		{run.FleetUpdate{}, 10, 3, 2},
		{run.FleetUpdate{}, 1, 1, 0},
		{run.FleetUpdate{}, 0, 0, 1},
		{run.FleetUpdate{MaxSurge: "0", MaxUnavailable: "10%"}, 5, 0, 1},
		{run.FleetUpdate{MaxSurge: "2", MaxUnavailable: "0"}, 5, 2, 0},
		{run.FleetUpdate{MaxSurge: "0%", MaxUnavailable: "9"}, 5, 0, 5},
		{run.FleetUpdate{MaxSurge: "100%", MaxUnavailable: "100%"}, 7, 7, 7},
	} {
		surge, unavailable := test.update.Bounds(test.size)
		require.Equal(t, []int{test.surge, test.unavailable}, []int{surge, unavailable}, "%+v of %d", test.update, test.size)
	}
}

func TestAmount_Parse(t *testing.T) {
	t.Parallel()
	for _, text := range []run.Amount{"", "%", "-1", "+1", "1.5", "25 %", "a", "5%%", "99999999999999999999"} {
		_, _, err := text.Parse()
		require.Equal(t, run.CodeInvalid, run.CodeOf(err), text)
	}
}

func TestFleetSettings_Equal(t *testing.T) {
	t.Parallel()
	settings := func(change func(*run.FleetSpec)) run.FleetSettings {
		s := run.FleetSpec{Plugin: "docker", PluginConfig: json.RawMessage(`{"image": "a", "size": 12345678901234567890}`)}
		change(&s)
		return run.SettingsOf(s)
	}
	same := settings(func(*run.FleetSpec) {})
	for name, change := range map[string]func(*run.FleetSpec){
		"order of keys":     func(s *run.FleetSpec) { s.PluginConfig = json.RawMessage(`{"size":12345678901234567890,"image":"a"}`) },
		"default bootstrap": func(s *run.FleetSpec) { s.Bootstrap = run.BootstrapAgent },
		"limits":            func(s *run.FleetSpec) { s.MaxInstances, s.Pool, s.Update.MaxSurge = 4, "other", "1" },
	} {
		require.True(t, same.Equal(settings(change)), name)
	}
	for name, change := range map[string]func(*run.FleetSpec){
		"plugin":        func(s *run.FleetSpec) { s.Plugin = "process" },
		"config":        func(s *run.FleetSpec) { s.PluginConfig = json.RawMessage(`{"image":"b","size":12345678901234567890}`) },
		"large number":  func(s *run.FleetSpec) { s.PluginConfig = json.RawMessage(`{"image":"a","size":12345678901234567891}`) },
		"no config":     func(s *run.FleetSpec) { s.PluginConfig = nil },
		"connector":     func(s *run.FleetSpec) { s.ConnectorConfig.Password = "other" },
		"bootstrap":     func(s *run.FleetSpec) { s.Bootstrap = run.BootstrapSSH },
		"ready command": func(s *run.FleetSpec) { s.InstanceReadyCommand = "true" },
	} {
		require.False(t, same.Equal(settings(change)), name)
	}
}
