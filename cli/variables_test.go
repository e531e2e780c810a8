package cli_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/cli/clitest"
	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/session"
)

// submission is what a submission sends of the variables and secrets.
type submission struct {
	Environment map[string]string `json:"environment"`
	Secrets     map[string]string `json:"secrets"`
}

// RoundTrip implements http.RoundTripper.
func (s *submission) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, s); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(data))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// submitWith runs a file with further arguments, in a directory with a file, and
// returns what was sent.
func submitWith(t *testing.T, file string, args ...string) (submission, command.ExitCode, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "given")
	require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "FILE", path)
	}
	var sent submission
	code, _, stderr := execute(t, clitest.New(t).URL, func(e *session.Env) { e.Transport = &sent }, append([]string{"run", specFile(t, []byte(hello))}, args...)...)
	return sent, code, strings.ReplaceAll(stderr, path, "given")
}

func TestRun_env_file(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]map[string]string{
		`A=pa$word$1`:                       {"A": `pa$word$1`},
		`A=x${HOME}y`:                       {"A": `x${HOME}y`},
		`A="$(id) ${HOME} $HOME"`:           {"A": `$(id) ${HOME} $HOME`},
		"A=`id`":                            {"A": "`id`"},
		`A=x#y # z`:                         {"A": `x#y # z`},
		`A="x#y" # a comment`:               {"A": `x#y`},
		`A='#'`:                             {"A": `#`},
		"# A=1\n  # B=2\n\n  \n\tC=3":       {"C": "3"},
		`A=C:\temp\new\\x`:                  {"A": `C:\temp\new\\x`},
		`A="a\nb\tc\\"`:                     {"A": `a\nb\tc\\`},
		`A='it is "x"'`:                     {"A": `it is "x"`},
		`A="it's"`:                          {"A": `it's`},
		`A=it's "x"`:                        {"A": `it's "x"`},
		`A=  two  words `:                   {"A": `  two  words `},
		`A="  two  words "  `:               {"A": `  two  words `},
		`A=x=y==`:                           {"A": `x=y==`},
		`A==`:                               {"A": `=`},
		"A=\nB=\"\"":                        {"A": "", "B": ""},
		"A=Grüße, 世界 🐑":                     {"A": "Grüße, 世界 🐑"},
		"\ufeffA=1":                         {"A": "1"},
		"A=1\r\nB='2'\r\n\r\nC=3\r\n":       {"A": "1", "B": "2", "C": "3"},
		"export A=1\nexport\tB=2\nexport=3": {"A": "1", "B": "2", "export": "3"},
		"A=1\nA=2":                          {"A": "2"},
		"A=\"one\ntwo = 'x'\n#\"\nB=2":      {"A": "one\ntwo = 'x'\n#", "B": "2"},
		`A={"k": "v", "$x": [1]}`:           {"A": `{"k": "v", "$x": [1]}`},
	} {
		sent, code, stderr := submitWith(t, text, "--env-file", "FILE")
		require.Equal(t, command.ExitOK, code, "%s: %s", text, stderr)
		require.Equal(t, want, sent.Environment, text)
	}
	for text, want := range map[string]string{
		"A=1\nhunter2":             "read given: line 2: it is not NAME=VALUE",
		"=hunter2":                 "read given: line 1: it is not NAME=VALUE",
		"A: hunter2":               "read given: line 1: it is not NAME=VALUE",
		"A = hunter2":              "read given: line 1: the name has a space or a quote",
		`A="hunter2" hunter2`:      "read given: line 1: the value goes on after its closing quote",
		`A="hunter2","hunter2"`:    "read given: line 1: the value goes on after its closing quote",
		"A=\"1\n2\"\nB='hunter2\n": "read given: line 3: the quote at the beginning of the value is not closed",
		"A=\xffhunter2":            "read given: it is not UTF-8",
	} {
		_, code, stderr := submitWith(t, text, "--env-file", "FILE")
		require.Equal(t, command.ExitInvalid, code, text)
		require.Contains(t, stderr, want)
		require.NotContains(t, stderr, "hunter2")
	}
}

func TestRun_secret_file(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcdef", 4000)
	for text, want := range map[string]string{
		`pa$word${HOME}#\n = "x"`:      `pa$word${HOME}#\n = "x"`,
		" two  words \n":               " two  words ",
		"Grüße\r\n":                    "Grüße",
		"-----BEGIN\nabc==\n-----\n\n": "-----BEGIN\nabc==\n-----\n",
		long:                           long,
	} {
		sent, code, stderr := submitWith(t, text, "--secret", "TOKEN=@FILE")
		require.Equal(t, command.ExitOK, code, stderr)
		require.Equal(t, map[string]string{"TOKEN": want}, sent.Secrets)
	}
	for text, want := range map[string]string{
		"\n":                          "the secret in given is empty",
		"hunter2\xff":                 "the secret in given is not UTF-8",
		strings.Repeat(long, 3) + "x": "the secret in given is too long",
	} {
		_, code, stderr := submitWith(t, text, "--secret", "TOKEN=@FILE")
		require.Equal(t, command.ExitInvalid, code, stderr)
		require.Contains(t, stderr, want)
		require.NotContains(t, stderr, "hunter2")
	}
}
