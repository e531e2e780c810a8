package shim

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// TestOutputTail_hint gives scripts to the shells of this machine.
func TestOutputTail_hint(t *testing.T) {
	t.Parallel()
	for name, argv := range map[string][]string{"dash": {"dash", "-e"}, "busybox": {"busybox", "sh", "-e"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program, err := exec.LookPath(argv[0])
			if err != nil {
				testenv.HostLacks(t, argv[0])
			}
			for _, script := range []string{
				"x=(1 2)", "echo a |& cat", "for ((i=0; i<2; i++)); do :; done", "cat <<< a\nx=(1)", "declare -a x", "shopt -s nullglob", "echo ${x^^}", "read -a x",
			} {
				require.Equal(t, bashHint, hintFor(t, program, argv, script), script)
			}
			for _, script := range []string{"false", "exit 3", "nowhere", "echo 'a: 1: (' >&2; exit 1", "if", "echo )"} {
				require.Empty(t, hintFor(t, program, argv, script), script)
			}
		})
	}
}

func TestOutputTail_hint_of_dash(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"/t/steps/step-0.sh: 1: [[: not found", "/t/step-0: 2: set: Illegal option -o pipefail", "step-0: 1: Bad substitution",
		"step-0: 1: Syntax error: redirection unexpected", "step-0: 9: source: not found", "step-0: 1: [: a: unexpected operator",
	} {
		var tail outputTail
		tail.add([]byte(strings.Repeat("earlier output\n", 1000)))
		tail.add([]byte(line + "\n"))
		require.LessOrEqual(t, len(tail.text), tailSize)
		require.Equal(t, bashHint, tail.hint(&run.Definition{Shell: run.DefaultShell()}), line)
		require.Empty(t, tail.hint(&run.Definition{Shell: []string{"bash", "-e"}}), line)
	}
}

func hintFor(t *testing.T, program string, argv []string, script string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "step-0")
	require.NoError(t, os.WriteFile(file, []byte(script+"\n"), 0o600))
	out, err := exec.CommandContext(t.Context(), program, append(argv[1:], file)...).CombinedOutput()
	require.Error(t, err, script)
	var tail outputTail
	tail.add(out)
	return tail.hint(&run.Definition{Shell: argv})
}
