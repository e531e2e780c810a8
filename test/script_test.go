package test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/itchyny/gojq"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

type scriptEnvKey struct{}

// scriptEnv is the environment of a script: the Drover that it uses, its variables
// and its last response.
type scriptEnv struct {
	t             testing.TB
	dir           string
	server, token string
	temporal      string
	parts         *harness.Parts    // nil until the command parts
	vars          map[string]string // the values of $NAME and $ENV.NAME
	headers       map[string]string // of the next call
	answer
}

// answer is the response to the last call.
type answer struct {
	status int
	header http.Header
	body   string
	value  any // the decoded body if it is JSON, else its text
}

func scriptEnvOf(ts *testscript.TestScript) *scriptEnv { return ts.Value(scriptEnvKey{}).(*scriptEnv) }

func (s *scriptEnv) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.t.Context(), testenv.Patience(s.t))
}

// set sets a variable of the script.
func (s *scriptEnv) set(ts *testscript.TestScript, name, value string) {
	s.vars[name] = value
	ts.Setenv(name, value)
}

// send makes a call and returns the response with an unread body.
func (s *scriptEnv) send(ctx context.Context, method, path, body string) (*http.Response, error) {
	media := "application/yaml"
	if strings.HasPrefix(strings.TrimSpace(body), "{") {
		media = "application/json"
	}
	req, err := http.NewRequestWithContext(ctx, method, s.server+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("create the request: %w", err)
	}
	if method != http.MethodGet {
		req.Header.Set("Content-Type", media)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	for name, value := range s.headers {
		req.Header.Set(name, value)
	}
	resp, err := harness.HTTPClient(s.t).Do(req)
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", path, err)
	}
	return resp, nil
}

// call makes a call with the headers set for it, and returns the response.
func (s *scriptEnv) call(method, path, body string) (answer, error) {
	ctx, cancel := s.context()
	defer cancel()
	resp, err := s.send(ctx, method, path, body)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, fmt.Errorf("read the response to %s: %w", path, err)
	}
	a := answer{status: resp.StatusCode, header: resp.Header, body: string(text), value: string(text)}
	if strings.Contains(resp.Header.Get("Content-Type"), "json") {
		if err := json.Unmarshal(text, &a.value); err != nil {
			return answer{}, fmt.Errorf("read the response to %s: %w: %s", path, err, text)
		}
	}
	return a, nil
}

// do makes a call, stores its response and clears the headers.
func (s *scriptEnv) do(ts *testscript.TestScript, method, path, body string) {
	a, err := s.call(method, path, body)
	ts.Check(err)
	s.answer, s.headers = a, nil
}

// query evaluates a jq expression on the last response. The expression reads
// variables of the script as $ENV.NAME.
func (s *scriptEnv) query(ts *testscript.TestScript, expr string) any {
	q, err := gojq.Parse(expr)
	ts.Check(err)
	code, err := gojq.Compile(q, gojq.WithEnvironLoader(func() []string {
		var list []string
		for name, value := range s.vars {
			list = append(list, name+"="+value)
		}
		return list
	}))
	ts.Check(err)
	value, ok := code.Run(s.value).Next()
	if !ok {
		return nil
	}
	if err, bad := value.(error); bad {
		ts.Fatalf("%s: %v\non %s", expr, err, s.body)
	}
	return value
}

// input returns the request body that argument i gives: JSON, used unchanged, or
// the name of a file of the script, in which variables are expanded.
func (s *scriptEnv) input(ts *testscript.TestScript, args []string, i int) string {
	if len(args) <= i {
		return ""
	}
	if strings.HasPrefix(args[i], "{") {
		return args[i]
	}
	return os.Expand(ts.ReadFile(args[i]), func(name string) string {
		if value, ok := s.vars[name]; ok {
			return value
		}
		return "$" + name // a variable of the shell that runs the step
	})
}

// atLeast fails the script if a command has fewer than n arguments.
func atLeast(ts *testscript.TestScript, args []string, n int, usage string) {
	if len(args) < n {
		ts.Fatalf("usage: %s", usage)
	}
}

// until calls try until it returns true.
func (s *scriptEnv) until(ts *testscript.TestScript, try func() (done bool, state string)) {
	patience := testenv.Patience(s.t)
	deadline := time.Now().Add(patience)
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		done, state := try()
		if done {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("gave up after %s; last state: %s", patience, state)
		}
		timer := time.NewTimer(pause) //nolint:forbidigo // as testenv.Await, which does not say where the script is
		select {
		case <-timer.C:
		case <-s.t.Context().Done():
			ts.Fatalf("the test ended; last state: %s", state)
		}
	}
}
