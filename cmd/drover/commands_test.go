package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

func TestReadPluginConfig_faults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"- a":          "read the plugin's configuration FILE: line 1: a list where a map is expected",
		"a: b\n\tc: d": "read the plugin's configuration FILE: line 2: a tab is part of the indentation: YAML allows only spaces there",
		"plugin_config: {}\nconnector_config: {protocol_port: many}": "read the connector's configuration in FILE: connector_config.protocol_port: a string where a whole number is expected",
		"connector_config: [ssh]":                                    "read the connector's configuration in FILE: connector_config: a list where a map is expected",
	} {
		file := writeTo(t, t.TempDir(), "plugin.yaml", text)
		require.EqualError(t, readPluginConfig(file, &fleeting.Options{}), strings.ReplaceAll(want, "FILE", file), text)
	}
}
