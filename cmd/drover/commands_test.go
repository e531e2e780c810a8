package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/session"
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
