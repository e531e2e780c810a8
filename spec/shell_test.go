package spec_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

func TestRead_shell(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]run.Shell{
		"shell: bash":          {"bash", "-e", "-o", "pipefail"},
		"shell: sh":            {"/bin/sh", "-e"},
		"shell: [bash, -euox]": {"bash", "-euox"},
		"shell: [bash]":        {"bash"},
		"shell:":               nil,
	} {
		s, err := spec.Validate([]byte(minimal+"    "+text+"\n"), spec.FormatYAML)
		require.NoError(t, err, "%s: %v", text, faults(err))
		require.Equal(t, want, s.Tasks["a"].Shell, text)
	}
	for _, name := range run.ShellNames() {
		s, err := spec.Validate([]byte(`{"name":"n","group":"/a/b","tasks":{"a":{"shell":"`+name+`","steps":[{"run":"true"}]}}}`), spec.FormatJSON)
		require.NoError(t, err, name)
		require.NotEmpty(t, s.Tasks["a"].Shell, name)
	}
	for text, hint := range map[string]string{
		"shell: bahs":      `"bahs" is none of sh, bash, zsh, pwsh, python; did you mean "bash"?`,
		"shell: bash -eux": `"bash -eux" is none of sh, bash, zsh, pwsh, python; write a program and its arguments as a list: [bash, -eux]`,
		"shell: /bin/bash": `"/bin/bash" is none of sh, bash, zsh, pwsh, python; for another program write a list such as [/bin/sh, -e]`,
	} {
		_, err := spec.Validate([]byte(minimal+"    "+text+"\n"), spec.FormatYAML)
		require.Equal(t, []string{"6 tasks.a.shell bad_value"}, formatFaults(err), text)
		require.Equal(t, hint, faults(err)[0].Detail)
	}
}

// TestNamedShell_bash: a command that fails within a pipeline ends the script.
func TestNamedShell_bash(t *testing.T) {
	t.Parallel()
	shell, _ := run.NamedShell("bash")
	if _, err := exec.LookPath(shell[0]); err != nil {
		testenv.HostLacks(t, "bash")
	}
	out, err := exec.CommandContext(t.Context(), shell[0], append(shell[1:], "-c", "[[ a == a ]]; echo one; false | true; echo two")...).CombinedOutput()
	require.Error(t, err)
	require.Equal(t, "one\n", string(out))
}
