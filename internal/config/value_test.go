package config_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/config"
)

func TestConfig_Value(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.Gateway.Hosts = []string{"a.example", "b.example:8443"}
	c.Gateway.ShutdownTimeout = 90 * time.Second
	c.Executor.Labels = map[string]string{"zone": "b", "arch/kind": "x=y"}
	c.Executor.Slots, c.Executor.Privileged = 7, true
	c.Executor.Token = "hunter2"
	c.Executor.Docker.Network = "net"
	c.Dev.Executors = []string{"shell"}
	tests := []struct{ name, key, want string }{
		{"list", "gateway.hosts", "a.example,b.example:8443"},
		{"list of one", "dev.executors", "shell"},
		{"duration", "gateway.shutdown_timeout", "1m30s"},
		{"map, in order", "executor.labels", "arch/kind=x=y,zone=b"},
		{"text", "gateway.listen", "127.0.0.1:8080"},
		{"empty text", "executor.id", ""},
		{"number", "executor.slots", "7"},
		{"number that is not set", "dev.slots", "0"},
		{"truth", "executor.privileged", "true"},
		{"untruth", "executor.drain_finish", "false"},
		{"secret", "executor.token", "hunter2"},
		{"of a section in a section", "executor.docker.network", "net"},
		{"section", "gateway", ""},
		{"unknown", "gateway.listn", ""},
		{"beyond a value", "gateway.listen.port", ""},
		{"beyond a map", "executor.labels.zone", ""},
		{"nothing", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, c.Value(tt.key))
		})
	}
	t.Run("empty list", func(t *testing.T) {
		t.Parallel()
		require.Empty(t, config.Default().Value("gateway.hosts"))
		require.Empty(t, config.Default().Value("executor.labels"))
	})
	t.Run("what comes out goes in", func(t *testing.T) {
		t.Parallel()
		flags := map[string]string{}
		for _, key := range config.Keys() {
			flags[key] = c.Value(key)
		}
		again, err := config.Load(config.Source{Flags: flags})
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(c, again))
	})
}
