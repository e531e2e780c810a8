package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/cli"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/session"
)

func execute(t *testing.T, args ...string) (code command.ExitCode, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	env := session.Env{Stdout: &out, Stderr: &errs, LookupEnv: func(string) (string, bool) { return "", false }}
	code = command.Execute(t.Context(), addPluginCommands(cli.New(env, processCommands()...)), args)
	return code, out.String(), errs.String()
}

// TestCommands_renamed checks that a former name fails with a hint at the new
// one, which exists.
func TestCommands_renamed(t *testing.T) {
	t.Parallel()
	for old, now := range map[string]string{
		"gateway --listen 127.0.0.1:0": "start gateway",
		"control":                      "start control",
		"executor --pool linux":        "start executor",
		"fleet --help":                 "start fleet-worker",
		"relay":                        "start relay",
		"temporal":                     "start temporal",
		"token new --name ci":          "tokens create",
		"token":                        "tokens create",
		"token key --file k":           "keys create relay",
		"records key":                  "keys create encryption",
		"records reseal":               "records reencrypt",
	} {
		t.Run(old, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := execute(t, strings.Fields(old)...)
			require.Equal(t, command.ExitInvalid, code)
			require.Empty(t, stdout)
			require.Contains(t, stderr, " is now drover "+now+"\nSee drover "+now+" --help.\n")
			code, stdout, _ = execute(t, append(strings.Fields(now), "--help")...)
			require.Equal(t, command.ExitOK, code)
			require.Contains(t, stdout, "drover "+now+" [flags]")
		})
	}
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
