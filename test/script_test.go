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

	"github.com/drover-run/drover/test/harness"
)

// patience bounds every wait of a script: long enough for a machine that is
// busy with all other tests.
const patience = 2 * time.Minute

var scriptClient = &http.Client{Timeout: patience}

type stageKey struct{}

// stage is what a script plays on.
type stage struct {
	t             testing.TB
	dir           string
	server, token string
	temporal      string
	parts         *harness.Parts    // once the script asked for its own
	vars          map[string]string // what $NAME and $ENV.NAME stand for
	headers       map[string]string // of the next call
	answer
}

// answer is what came of the last call.
type answer struct {
	status int
	header http.Header
	body   string
	value  any // the body from JSON; the text of any other
}

func stageOf(ts *testscript.TestScript) *stage { return ts.Value(stageKey{}).(*stage) }

func (s *stage) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.t.Context(), patience)
}

// set makes a variable.
func (s *stage) set(ts *testscript.TestScript, name, value string) {
	s.vars[name] = value
	ts.Setenv(name, value)
}

// send makes a call and returns its answer, whose body is still to be read.
func (s *stage) send(ctx context.Context, method, path, body string) (*http.Response, error) {
	media := "application/yaml"
	if strings.HasPrefix(strings.TrimSpace(body), "{") {
		media = "application/json"
	}
	req, err := http.NewRequestWithContext(ctx, method, s.server+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	if method != http.MethodGet {
		req.Header.Set("Content-Type", media)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	for name, value := range s.headers {
		req.Header.Set(name, value)
	}
	resp, err := scriptClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("calling %s: %w", path, err)
	}
	return resp, nil
}

// call makes a call with the headers set for it, and returns the answer.
func (s *stage) call(method, path, body string) (answer, error) {
	ctx, cancel := s.context()
	defer cancel()
	resp, err := s.send(ctx, method, path, body)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, fmt.Errorf("reading the answer to %s: %w", path, err)
	}
	a := answer{status: resp.StatusCode, header: resp.Header, body: string(text), value: string(text)}
	if strings.Contains(resp.Header.Get("Content-Type"), "json") {
		if err := json.Unmarshal(text, &a.value); err != nil {
			return answer{}, fmt.Errorf("reading the answer to %s: %w: %s", path, err, text)
		}
	}
	return a, nil
}

// do makes a call, which uses the headers up, and keeps its answer.
func (s *stage) do(ts *testscript.TestScript, method, path, body string) {
	a, err := s.call(method, path, body)
	ts.Check(err)
	s.answer, s.headers = a, nil
}

// query evaluates a jq expression on the last answer. Variables of the script
// are $ENV.NAME in it.
func (s *stage) query(ts *testscript.TestScript, expr string) any {
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

// input returns the body that argument i names: JSON as it stands, or a file
// of the script, with the script's variables filled in.
func (s *stage) input(ts *testscript.TestScript, args []string, i int) string {
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
		return "$" + name // of the shell of a step
	})
}

// atLeast ends a script whose command has too few arguments.
func atLeast(ts *testscript.TestScript, args []string, n int, usage string) {
	if len(args) < n {
		ts.Fatalf("usage: %s", usage)
	}
}

// until calls try until it says that it is done.
func (s *stage) until(ts *testscript.TestScript, try func() (done bool, state string)) {
	deadline := time.Now().Add(patience)
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		done, state := try()
		if done {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("gave up after %s; last state: %s", patience, state)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-s.t.Context().Done():
			ts.Fatalf("the test ended; last state: %s", state)
		}
	}
}
