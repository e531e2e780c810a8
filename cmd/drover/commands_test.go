package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/fleeting"
)

func execute(t *testing.T, args ...string) (code command.ExitCode, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	env := session.Env{Stdout: &out, Stderr: &errs, LookupEnv: func(string) (string, bool) { return "", false }}
	code = command.Execute(t.Context(), rootCommand(env), args)
	return code, out.String(), errs.String()
}

func TestCommands_help(t *testing.T) {
	t.Parallel()
	_, stdout, _ := execute(t)
	for _, name := range []string{"dev", "start", "ps", "logs", "status", "tokens", "keys"} {
		require.Contains(t, stdout, "\n  "+name+" ")
	}
	for _, name := range []string{"gateway", "fleet", "token"} {
		require.NotContains(t, stdout, "\n  "+name+" ")
	}
	code, _, stderr := execute(t, "start", "gatway")
	require.Equal(t, command.ExitInvalid, code)
	require.Contains(t, stderr, `unknown command "drover start gatway"; did you mean gateway?`)
	code, _, _ = execute(t, "keys", "create", "other")
	require.Equal(t, command.ExitInvalid, code)
}

// settingsFile returns the file with settings, by their keys.
func settingsFile(t *testing.T, settings map[string]any) string {
	t.Helper()
	sections := map[string]map[string]any{}
	for key, value := range settings {
		section, name, _ := strings.Cut(key, ".")
		if sections[section] == nil {
			sections[section] = map[string]any{}
		}
		sections[section][name] = value
	}
	text, err := yaml.Marshal(sections)
	require.NoError(t, err)
	return string(text)
}

func writeTo(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// TestPluginCheck_configuration: the message names the key, what is given and what is
// expected, before any plugin is launched.
func TestPluginCheck_configuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"- a":                               "drover: read the plugin's configuration FILE: line 1: a list where a map is expected",
		"a: b\n\tc: d":                      "drover: read the plugin's configuration FILE: line 2: a tab is part of the indentation: YAML allows only spaces there",
		"plugin_config: 5":                  "drover: FILE: plugin_config: it must be a map",
		"connector_config: [ssh]":           "FILE: connector_config: ",
		"connector_config: {username: 5}":   "FILE: connector_config.username: ",
		"connector_config: {keepalive: 30}": "FILE: connector_config.keepalive: ",
		"connector_config: {keepalive: 3x}": "FILE: connector_config.keepalive: ",
		"connector_config: {timeout: true}": "FILE: connector_config.timeout: ",
		"connector_config: {user: ubuntu}":  "FILE: connector_config.user: ",
		"connector_config: {key_path: /no}": "drover: FILE: read the key of connector_config: ",
		"plugin_config: {}\nconnector_config: {protocol_port: many, keepalive: 1}": "FILE: connector_config.protocol_port: ",
	} {
		file := writeTo(t, t.TempDir(), "plugin.yaml", text)
		code, _, stderr := execute(t, "fleets", "plugin", "check", "no-such-plugin", "--config", file)
		require.Equal(t, command.ExitInvalid, code, text)
		require.Contains(t, stderr, strings.ReplaceAll(want, "FILE", file), text)
	}
	code, _, stderr := execute(t, "fleets", "plugin", "check", "no-such-plugin", "--exercise")
	require.Equal(t, command.ExitInvalid, code, stderr)
}

// The connector has the settings of a fleet, with durations such as 30s.
func TestReadPluginConfig(t *testing.T) {
	t.Parallel()
	var o fleeting.Options
	file := writeTo(t, t.TempDir(), "plugin.yaml", "name: web\nconnector_config: {username: ubuntu, keepalive: 30s, use_external_addr: true}")
	require.NoError(t, readPluginConfig(file, &o))
	require.JSONEq(t, `{"name": "web"}`, string(o.Config))
	require.Equal(t, fleeting.Connector{Username: "ubuntu", Keepalive: 30 * time.Second}, o.Connector)
}
