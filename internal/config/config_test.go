package config_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/config"
)

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "drover.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestLoad_precedence(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		file  string
		env   []string
		flags map[string]string
		want  func(*config.Config)
	}{
		{name: "defaults", want: func(*config.Config) {}},
		{
			name: "file over defaults", file: "gateway: {listen: '127.0.0.1:1'}",
			want: func(c *config.Config) { c.Gateway.Listen = "127.0.0.1:1" },
		},
		{
			name: "environment over file", file: "gateway: {listen: '127.0.0.1:1', token_file: /t}",
			env: []string{"DROVER_GATEWAY__LISTEN=127.0.0.1:2"},
			want: func(c *config.Config) {
				c.Gateway.Listen, c.Gateway.TokenFile = "127.0.0.1:2", "/t"
			},
		},
		{
			name: "flags over environment", file: "gateway: {listen: '127.0.0.1:1'}",
			env: []string{"DROVER_GATEWAY__LISTEN=127.0.0.1:2"}, flags: map[string]string{"gateway.listen": "127.0.0.1:3"},
			want: func(c *config.Config) { c.Gateway.Listen = "127.0.0.1:3" },
		},
		{
			name: "empty over a value", env: []string{"DROVER_DEV__TEMPORAL_UI=127.0.0.1:5"}, flags: map[string]string{"dev.temporal_ui": ""},
			want: func(c *config.Config) { c.Dev.TemporalUI = "" },
		},
		{
			name: "a key without a value sets nothing", file: "gateway:\nlog:\n  level:\n  format: json\nexecutor: ~\n",
			want: func(c *config.Config) { c.Log.Format = "json" },
		},
		{
			name: "every kind of value in a file",
			file: "gateway: {hosts: [a, b], shutdown_timeout: 1m30s}\nexecutor: {slots: 7, privileged: true, labels: {a.b/c: x, n: 1}, token: hunter2, id: 7}\n",
			want: func(c *config.Config) {
				c.Gateway.Hosts, c.Gateway.ShutdownTimeout = []string{"a", "b"}, 90*time.Second
				c.Executor.Slots, c.Executor.Privileged, c.Executor.Token, c.Executor.ID = 7, true, "hunter2", "7"
				c.Executor.Labels = map[string]string{"a.b/c": "x", "n": "1"}
			},
		},
		{
			name: "every kind of value in the environment",
			env: []string{
				"DROVER_GATEWAY__HOSTS=a, b,", "DROVER_GATEWAY__SHUTDOWN_TIMEOUT=1s", "DROVER_EXECUTOR__SLOTS=7",
				"DROVER_EXECUTOR__PRIVILEGED=true", "DROVER_EXECUTOR__LABELS=a.b=x,c=d=e", "DROVER_RECORDS__DSN=postgres://u:p@h/d",
				"DROVER_EXECUTOR__DOCKER__NETWORK=net",
			},
			want: func(c *config.Config) {
				c.Gateway.Hosts, c.Gateway.ShutdownTimeout = []string{"a", "b"}, time.Second
				c.Executor.Slots, c.Executor.Privileged, c.Executor.Docker.Network = 7, true, "net"
				c.Executor.Labels, c.Records.DSN = map[string]string{"a.b": "x", "c": "d=e"}, "postgres://u:p@h/d"
			},
		},
		{
			name: "a list is replaced and not added to", file: "gateway: {hosts: [a, b]}", env: []string{"DROVER_GATEWAY__HOSTS=c"},
			want: func(c *config.Config) { c.Gateway.Hosts = []string{"c"} },
		},
		{
			name: "variables that are not settings", env: []string{"DROVER_SERVER=x", "DROVER_RUN_ID=y", "OTHER__X=z", "DROVER_LOG__LEVEL=warn"},
			want: func(c *config.Config) { c.Log.Level = "warn" },
		},
		{name: "an empty file", file: "# nothing\n", want: func(*config.Config) {}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			src := config.Source{Environ: tt.env, Flags: tt.flags}
			if tt.file != "" {
				src.File = write(t, tt.file)
			}
			got, err := config.Load(src)
			require.NoError(t, err)
			want := config.Default()
			tt.want(&want)
			require.Empty(t, cmp.Diff(want, got))
		})
	}
}

func TestLoad_refuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		src  config.Source
		file string
		want []string
	}{
		{name: "unknown key", file: "gateway:\n  listn: x\n", want: []string{":2: unknown setting gateway.listn; did you mean gateway.listen?"}},
		{name: "key of another section", file: "listen: x\n", want: []string{":1: unknown setting listen; did you mean gateway.listen?"}},
		{name: "mistyped section", file: "gatway: {listen: x}\n", want: []string{":1: unknown setting gatway; did you mean gateway?"}},
		{
			name: "unknown settings and wrong values", file: "gatway: {listen: x}\nrecords: {driver: postgre}\nlog: {level: loud}\n",
			want: []string{":1: unknown setting gatway; did you mean gateway?", "log.level: ", "records.driver: "},
		},
		{name: "unknown section", file: "\nzzz: {a: 1}\n", want: []string{":2: unknown setting zzz"}},
		{name: "a value instead of a section", file: "gateway: 127.0.0.1:80\n", want: []string{":1: gateway: expected a map of settings"}},
		{name: "a list instead of a value", file: "log: {level: [a]}\n", want: []string{"log.level: expected a single value, not a list"}},
		{name: "a map in the place of a secret", file: "records: {dsn: {hunter2: hunter2}}\n", want: []string{"records.dsn: expected a single value, not a map"}},
		{name: "a list as the file", file: "[1]\n", want: []string{":1: expected a map of settings"}},
		{name: "a key twice", file: "log: {level: info, level: warn}\n", want: []string{"log.level is set twice"}},
		{name: "two documents", file: "log: {}\n---\nlog: {}\n", want: []string{"the file has a second document"}},
		{name: "not YAML", file: "log: {\n", want: []string{"drover.yaml:1: [ and { begin a list or a map"}},
		{name: "no file", src: config.Source{File: "/does/not/exist.yaml"}, want: []string{"read the configuration: open /does/not/exist.yaml"}},
		{
			name: "all faults at once", file: "executor: {slots: many}\nx: 1\n",
			src: config.Source{
				Environ: []string{"DROVER_GATEWAY__LISTN=x", "DROVER_EXECUTOR__PRIVILEGED=perhaps", "DROVER_EXECUTOR__LABELS=x"},
				Flags:   map[string]string{"gateway.shutdown_timeout": "5"},
			},
			want: []string{
				`:1: executor.slots: "many" is not a whole number`, ":2: unknown setting x",
				"DROVER_GATEWAY__LISTN: unknown setting gateway.listn; did you mean gateway.listen?",
				`DROVER_EXECUTOR__PRIVILEGED: executor.privileged: "perhaps" is neither true nor false`,
				`DROVER_EXECUTOR__LABELS: executor.labels: "x" is not of the form key=value`,
				`flags: gateway.shutdown_timeout: "5" is not a duration such as 10s or 1h30m`,
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.file != "" {
				tt.src.File = write(t, tt.file)
			}
			_, err := config.Load(tt.src)
			require.Error(t, err)
			for _, want := range tt.want {
				require.ErrorContains(t, err, want)
			}
			require.Len(t, strings.Split(err.Error(), "\n"), len(tt.want), err.Error())
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
}

// TestLoad_environment_sets_everything makes sure that every setting can be
// read from a text.
func TestLoad_environment_sets_everything(t *testing.T) {
	t.Parallel()
	for _, key := range config.Keys() {
		name := "DROVER_" + strings.ToUpper(strings.ReplaceAll(key, ".", "__"))
		var failed []string
		for _, value := range []string{"3", "true", "3s", "a=b"} {
			if _, err := config.Load(config.Source{Environ: []string{name + "=" + value}}); err != nil {
				failed = append(failed, value)
			}
		}
		require.Less(t, len(failed), 4, key)
	}
}

func TestConfig_Redacted(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.Records.DSN, c.Executor.Token = "postgres://u:hunter2@h/d", "hunter2"
	text, err := c.Redacted()
	require.NoError(t, err)
	require.NotContains(t, string(text), "hunter2")
	require.Contains(t, string(text), "dsn: '[redacted]'")
	for _, shown := range []string{
		fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), fmt.Sprintf("%q", c.Executor.Token), c.Executor.Token.LogValue().String(),
	} {
		require.NotContains(t, shown, "hunter2")
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("configured", "config", c, "token", c.Executor.Token)
	require.NotContains(t, log.String(), "hunter2")
	require.Equal(t, "hunter2", c.Executor.Token.Reveal())
}

func TestConfig_Redacted_can_be_read_again(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.Gateway.Hosts, c.Executor.Labels = []string{"a"}, map[string]string{"x.y": "z"}
	text, err := c.Redacted()
	require.NoError(t, err)
	again, err := config.Load(config.Source{File: write(t, string(text))})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(c, again))
}

func TestSecrets_from_files(t *testing.T) {
	t.Parallel()
	file := write(t, "hunter2\n")
	dsn, err := config.Records{DSNFile: file}.ReadDSN()
	require.NoError(t, err)
	require.Equal(t, "hunter2", dsn.Reveal())
	token, err := config.Executor{Token: "hunter2"}.ReadToken()
	require.NoError(t, err)
	require.Equal(t, "hunter2", token.Reveal())
	none, err := config.Executor{}.ReadToken()
	require.NoError(t, err)
	require.Empty(t, none.Reveal())
	_, err = config.Executor{TokenFile: write(t, " \n")}.ReadToken()
	require.ErrorContains(t, err, "is empty")
	_, err = config.Executor{TokenFile: file + ".not"}.ReadToken()
	require.ErrorContains(t, err, "read executor.token_file")
}
