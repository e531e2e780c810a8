package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/cli/command"
)

func TestCommands(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args           []string
		code           command.ExitCode
		stdout, stderr string
	}{
		{args: []string{}, stdout: "\n  start "},
		{args: []string{"start", "executor", "--help"}, stdout: "drover-agent start executor --pool linux --driver docker"},
		{args: []string{"start", "executor", "--slots", "x"}, code: command.ExitInvalid, stderr: "See drover-agent start executor --help."},
		{args: []string{"start", "gateway"}, code: command.ExitInvalid, stderr: `unknown command "drover-agent start gateway"`},
		{args: []string{"version"}, stdout: "drover-agent "},
		{args: []string{"config", "print"}, stdout: "executor:"},
	} {
		var out, errs bytes.Buffer
		root := newRoot()
		root.SetOut(&out)
		root.SetErr(&errs)
		require.Equal(t, tt.code, command.Execute(t.Context(), root, tt.args), "%v: %s", tt.args, errs.String())
		require.Contains(t, out.String(), tt.stdout)
		require.Contains(t, errs.String(), tt.stderr)
	}
}
