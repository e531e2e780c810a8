package shim

import (
	"bytes"
	"path"
	"regexp"
	"slices"

	"github.com/drover-run/drover/run"
)

// bashHint ends the reason of a step that failed because its script is for bash.
const bashHint = "; the script uses a feature of bash that its shell does not have: set shell: bash"

// tailSize is how much of a step's output is kept to recognize the error of a shell.
const tailSize = 2 << 10

// outputTail holds the end of a step's output.
type outputTail struct{ text []byte }

func (t *outputTail) add(p []byte) {
	if len(p) >= tailSize {
		t.text = append(t.text[:0], p[len(p)-tailSize:]...)
		return
	}
	if over := len(t.text) + len(p) - tailSize; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	t.text = append(t.text, p...)
}

// bashisms matches what the shells dash and BusyBox report, in their own words, for
// syntax and builtins of bash: "FILE: 1: [[: not found", "FILE: line 1: syntax error:
// unexpected "("".
var bashisms = regexp.MustCompile(`(?m)^[^\n]*?: (?:line )?\d+: (?:` +
	`(?:\[\[|source|declare|typeset|shopt|let|mapfile|readarray|pushd|popd|function): not found` +
	`|[Ss]yntax error: (?:"(?:\(|&)" unexpected|unexpected "(?:\(|&)"|redirection unexpected|unexpected redirection|[Bb]ad for loop variable|bad substitution)` +
	`|Bad substitution` +
	`|set: Illegal option -o (?:pipefail|errtrace|functrace|posix)|set: Illegal option -[ET]` +
	`|(?:read|export|printf): Illegal option -[a-zA-Z]` +
	`|\[: .*: unexpected operator)` +
	`|^[^\n]*?: (?:set|read|export): line \d+: illegal option`)

// hint returns what to add to the reason of the step, which failed; "" for nothing.
func (s *sink) hint(d *run.Definition) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tail.hint(d)
}

func (t *outputTail) hint(d *run.Definition) string {
	if !slices.Contains([]string{"sh", "dash", "ash", "busybox"}, path.Base(d.Shell[0])) || !bashisms.Match(bytes.ReplaceAll(t.text, []byte("\r\n"), []byte("\n"))) {
		return ""
	}
	return bashHint
}
