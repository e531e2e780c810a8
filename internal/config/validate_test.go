package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/config"
)

func TestConfig_Validate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*config.Config)
		parts  []config.Part
		want   []string // one problem a line
	}{
		{name: "defaults", change: func(*config.Config) {}},
		{name: "defaults of dev", change: func(*config.Config) {}, parts: []config.Part{config.PartDev, config.PartTemporal}},
		{
			name: "form",
			change: func(c *config.Config) {
				c.Log.Level, c.Log.Format, c.Telemetry.Listen = "loud", "xml", "9090"
				c.Temporal.Address, c.Records.Driver, c.Blobs.URL = "temporal", "mysql", "ftp://x"
				c.Records.DSN, c.Records.DSNFile = "x", "y"
			},
			want: []string{
				`log.level: "loud" is not one of debug, info, warn, error`, `log.format: "xml" is not one of text, json`,
				`telemetry.listen: "9090" is not a host and port`, `temporal.address: "temporal" is not a host and port`,
				`records.driver: "mysql" is not one of sqlite, postgres`, "records.dsn: excludes records.dsn_file",
				`blobs.url: the scheme "ftp" is not one of`,
			},
		},
		{
			name:   "logs",
			change: func(c *config.Config) { c.Logs.MaxMiB = -1 },
			want:   []string{"logs.max_mib: must not be negative"},
		},
		{
			name: "retention",
			change: func(c *config.Config) {
				c.Retention.Interval, c.Retention.Runs.MaxAge, c.Retention.Runs.Keep = 0, -1, -1
				c.Retention.Events.MaxAge, c.Retention.Events.Keep = -1, -1
				c.Retention.Logs.MaxAge, c.Retention.PerSecond, c.Retention.Executors.MaxAge = -1, -1, -1
				c.Retention.Audit.MaxAge = -1
			},
			want: []string{
				"retention.interval: must be at least 1s", "retention.per_second: must not be negative", "retention.logs.max_age: must not be negative", "retention.runs.max_age: must not be negative",
				"retention.runs.keep: must not be negative", "retention.events.max_age: must not be negative",
				"retention.events.keep: must not be negative", "retention.executors.max_age: must not be negative", "retention.audit.max_age: must not be negative",
			},
		},
		{
			name: "gateway",
			change: func(c *config.Config) {
				c.Gateway.Listen, c.Gateway.TLSCertFile, c.Gateway.ShutdownTimeout = "0.0.0.0:x", "c", 0
				c.Gateway.Hosts = []string{""}
				c.Temporal.UIURL = "javascript:alert(1)"
			},
			want: []string{
				`gateway.listen: "x" is not a port`, "gateway.hosts: must not contain an empty host",
				"temporal.ui_url: must be an http or https URL", "gateway.tls_cert_file: requires", "gateway.shutdown_timeout: must be above 0",
			},
		},
		{name: "a base path", change: func(c *config.Config) { c.Gateway.BasePath = "/ci/drover-1.2_x" }},
		{
			name:   "roles of users without a provider",
			change: func(c *config.Config) { c.Gateway.OIDC.RolesFile = "/roles" },
			want:   []string{"gateway.oidc.issuer: is required"},
		},
		{
			name: "roles of users with scopes for all",
			change: func(c *config.Config) {
				o := &c.Gateway.OIDC
				o.Issuer, o.ClientID, o.RolesFile, o.Bindings = "https://login.example.com", "drover", "/roles", []string{"group:x=admin", "*=read"}
			},
			want: []string{`gateway.oidc.bindings: "*=read" gives a scope to all users`},
		},
		{
			name: "gateway needs stores and tokens", parts: []config.Part{config.PartGateway},
			change: func(c *config.Config) { c.Gateway.Listen = "0.0.0.0:80" },
			want:   []string{"gateway.listen: 0.0.0.0:80 is reachable from other hosts", "records.path: must be set", "blobs.url: must be set"},
		},
		{
			name: "gateway on every address", parts: []config.Part{config.PartGateway},
			change: func(c *config.Config) { c.Gateway.Listen, c.Records.Path, c.Blobs.URL = ":80", "/r", "file:///b" },
			want:   []string{"gateway.listen: :80 is reachable from other hosts"},
		},
		{
			name: "complete gateway", parts: []config.Part{config.PartGateway, config.PartControl},
			change: func(c *config.Config) {
				c.Gateway.Listen, c.Gateway.TokenFile, c.Records.Path, c.Blobs.URL = "0.0.0.0:80", "/t", "/r", "file:///b"
			},
		},
		{
			name: "control on postgres", parts: []config.Part{config.PartControl},
			change: func(c *config.Config) { c.Records.Driver, c.Blobs.URL = "postgres", "s3://b" },
			want:   []string{"records.dsn: must be set for postgres"},
		},
		{
			name: "the link to a run", parts: []config.Part{config.PartControl},
			change: func(c *config.Config) {
				c.Records.Path, c.Blobs.URL, c.Control.RunURL = "/r", "file:///b", "https://ci.example.com/runs"
			},
			want: []string{"control.run_url: must be an http or https URL with {run}"},
		},
		{
			name:   "a blob directory with two slashes",
			change: func(c *config.Config) { c.Blobs.URL = "file://data/blobs" },
			want:   []string{"blobs.url: a directory needs three slashes"},
		},
		{
			name: "executor", parts: []config.Part{config.PartExecutor},
			change: func(c *config.Config) {
				c.Executor.ID, c.Executor.Driver, c.Executor.Slots, c.Executor.Resources.GPUs = "A b", "vm", -1, -1
				c.Executor.GatewayURL, c.Executor.Token, c.Executor.TokenFile = "http://gateway:8080", "x", "y"
			},
			want: []string{
				`executor.id: "A b" is not a name`, `executor.driver: "vm" is not one of shell, docker`, "executor.slots: -1 is not between 0 and 10000", "executor.resources.gpus: -1 is not between 0 and 1024",
				"executor.token: excludes executor.token_file", "executor.gateway_url: http://gateway:8080 is neither https nor loopback",
				"executor.pool: must be set", "executor.state_dir: must be set",
			},
		},
		{
			name: "the environment of plugins",
			change: func(c *config.Config) {
				c.Fleet.PluginEnv = []string{"AWS_*", "TOKEN", "*", "", "A=b", "A*B", "DROVER_*"}
			},
			want: []string{
				`fleet.plugin_env: "*" is not the name of a variable`, `fleet.plugin_env: "" is not`, `fleet.plugin_env: "A=b" is not`,
				`fleet.plugin_env: "A*B" is not`, `fleet.plugin_env: "DROVER_*" is a variable of Drover itself`,
			},
		},
		{
			name:   "credentials in a URL are not repeated",
			change: func(c *config.Config) { c.Executor.GatewayURL = "https://u:hunter2@h" },
			want:   []string{"executor.gateway_url: must not contain credentials"},
		},
		{
			name: "an insecure gateway that is allowed", parts: []config.Part{config.PartExecutor},
			change: func(c *config.Config) {
				c.Executor.GatewayURL, c.Executor.InsecureGateway = "http://gateway:8080", true
				c.Executor.Pool, c.Executor.Driver, c.Executor.StateDir = "p", "shell", "/s"
			},
		},
		{
			name: "relay", parts: []config.Part{config.PartRelay},
			change: func(c *config.Config) {
				c.Relay.Listen, c.Relay.TLSKeyFile, c.Relay.MaxPolls, c.Relay.ShutdownTimeout = ":7234", "/k", 0, 0
			},
			want: []string{
				"relay.listen: :7234 is reachable from other hosts", "relay.token_file: must be set", "relay.key_file: must be set",
				"relay.tls_cert_file: requires", "relay.max_polls: must be at least 1", "relay.shutdown_timeout: must be above 0",
			},
		},
		{
			name: "complete relays", parts: []config.Part{config.PartRelay, config.PartGateway},
			change: func(c *config.Config) {
				c.Relay.Listen, c.Relay.Insecure, c.Relay.TokenFile, c.Relay.KeyFile = "0.0.0.0:7234", true, "/t", "/k"
				c.Gateway.Relay, c.Records.Path, c.Blobs.URL = true, "/r", "file:///b"
			},
		},
		{
			name: "a gateway that serves a relay", parts: []config.Part{config.PartGateway},
			change: func(c *config.Config) { c.Gateway.Relay, c.Records.Path, c.Blobs.URL = true, "/r", "file:///b" },
			want:   []string{"relay.token_file: must be set", "relay.key_file: must be set"},
		},
		{
			name: "an executor without a token for its relay", parts: []config.Part{config.PartExecutor},
			change: func(c *config.Config) {
				c.Executor.Pool, c.Executor.Driver, c.Executor.StateDir, c.Executor.Relay.Address = "p", "shell", "/s", "relay:7234"
			},
			want: []string{"executor.relay.address: a relay needs the executor's token"},
		},
		{
			name:   "dev",
			change: func(c *config.Config) { c.Dev.Executors, c.Dev.Slots = []string{"none", "vm"}, -1 },
			want:   []string{"dev.slots: -1 is not between 0", `dev.executors: "vm" is not one of`, "dev.executors: none excludes other drivers"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := config.Default()
			tt.change(&c)
			err := c.Validate(tt.parts...)
			if tt.want == nil {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			for _, want := range tt.want {
				require.ErrorContains(t, err, want)
			}
			require.Len(t, strings.Split(err.Error(), "\n"), len(tt.want), err.Error())
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
}

func TestRelayClient_Plain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		client config.RelayClient
		plain  bool
	}{
		{config.RelayClient{Address: "127.0.0.1:7234"}, true},
		{config.RelayClient{Address: "localhost:7234"}, true},
		{config.RelayClient{Address: "127.0.0.1:7234", CAFile: "/ca"}, false},
		{config.RelayClient{Address: "127.0.0.1:7234", ServerName: "relay"}, false},
		{config.RelayClient{Address: "relay:7234"}, false},
		{config.RelayClient{Address: "relay:7234", Insecure: true}, true},
	} {
		require.Equal(t, tt.plain, tt.client.Plain(), tt.client)
	}
}

func TestConfig_Validate_base_path(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"drover", "/", "//drover", "/drover/", "/a//b", "/..", "/a/../b", "/.", "/.a", "/a?b", "/a#b", "/a b", "/a%20b", "/ä", "/a~b", "/a;b", "https://ci.example.com/drover",
		"/" + strings.Repeat("a", 200),
	} {
		c := config.Default()
		c.Gateway.BasePath = path
		require.ErrorContains(t, c.Validate(), "gateway.base_path: ", path)
	}
	for _, path := range []string{"/api", "/healthz", "/runs/drover"} {
		c := config.Default()
		c.Gateway.BasePath = path
		require.ErrorContains(t, c.Validate(), "is a path of the gateway itself", path)
	}
}
