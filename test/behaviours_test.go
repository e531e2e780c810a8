package test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/itchyny/gojq"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/test/harness"
)

// TestBehaviours plays every script under behaviours/ through the HTTP API of
// one drover, all at once: what a run service must do, numbered, one line each
// in the output. A script has its input and what must come of it in one file;
// docs/testing.md lists its commands.
func TestBehaviours(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t, []string{"DROVER_DEV__SLOTS=16"}, "--executor", "shell")
	t.Run("of", func(t *testing.T) {
		testscript.Run(t, testscript.Params{
			Dir: "behaviours", RequireExplicitExec: true,
			Setup: func(e *testscript.Env) error {
				e.Values[stageKey{}] = &stage{server: dev.Server, token: dev.Token, http: &http.Client{Timeout: 2 * time.Minute}}
				// Groups and change groups of one script are not another's.
				name := strings.TrimPrefix(filepath.Base(e.WorkDir), "script-")
				e.Setenv("GROUP", "/behaviours/"+name)
				e.Setenv("CG", name)
				return nil
			},
			Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
				"submit": cmdSubmit, "call": cmdCall, "check": cmdCheck, "await": cmdAwait, "let": cmdLet, "log": cmdLog,
				"parallel": cmdParallel, "events": cmdEvents, "header": cmdHeader,
			},
		})
	})
	require.NoError(t, dev.Stop())
}

type stageKey struct{}

// stage is what a script plays on.
type stage struct {
	server, token string
	http          *http.Client
	headers       map[string]string // of the next call
	status        int
	header        http.Header
	last          any    // the last answer, from JSON
	body          string // the same as text
}

func stageOf(ts *testscript.TestScript) *stage { return ts.Value(stageKey{}).(*stage) }

// call makes a call and keeps the answer.
func (s *stage) call(ctx context.Context, method, path, body string) error {
	media := "application/yaml"
	if strings.HasPrefix(strings.TrimSpace(body), "{") {
		media = "application/json"
	}
	path = "/api/v1" + path
	req, err := http.NewRequestWithContext(ctx, method, s.server+path, strings.NewReader(body))
	if err != nil {
		return fmt.Errorf("making the request: %w", err)
	}
	if method != http.MethodGet {
		req.Header.Set("Content-Type", media)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	for name, value := range s.headers {
		req.Header.Set(name, value)
	}
	s.headers = nil
	resp, err := s.http.Do(req)
	if err != nil {
		return fmt.Errorf("calling %s: %w", path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	var text strings.Builder
	if _, err := bufio.NewReader(resp.Body).WriteTo(&text); err != nil {
		return fmt.Errorf("reading the answer to %s: %w", path, err)
	}
	s.status, s.header, s.body, s.last = resp.StatusCode, resp.Header, text.String(), nil
	if strings.Contains(resp.Header.Get("Content-Type"), "json") {
		return json.Unmarshal([]byte(s.body), &s.last)
	}
	return nil
}

// query evaluates a jq expression on the last answer. Variables of the script
// are $ENV.NAME.
func (s *stage) query(ts *testscript.TestScript, expr string) any {
	q, err := gojq.Parse(expr)
	ts.Check(err)
	code, err := gojq.Compile(q, gojq.WithEnvironLoader(func() []string {
		return []string{"A=" + ts.Getenv("A"), "B=" + ts.Getenv("B"), "C=" + ts.Getenv("C"), "D=" + ts.Getenv("D"), "E=" + ts.Getenv("E"), "CG=" + ts.Getenv("CG"), "CGT=" + ts.Getenv("CGT"), "GROUP=" + ts.Getenv("GROUP")}
	}))
	ts.Check(err)
	value, ok := code.Run(s.last).Next()
	if !ok {
		return nil
	}
	if err, bad := value.(error); bad {
		ts.Fatalf("%s: %v\non %s", expr, err, s.body)
	}
	return value
}

func readArg(ts *testscript.TestScript, args []string, i int) string {
	if len(args) <= i {
		return ""
	}
	if strings.HasPrefix(args[i], "{") {
		return args[i]
	}
	return os.Expand(ts.ReadFile(args[i]), func(name string) string {
		switch name {
		case "GROUP", "CG", "CGT", "A", "B", "C", "D", "E":
			return ts.Getenv(name)
		}
		return "$" + name // of the shell of a step
	})
}

// submit VAR FILE: makes a run, whose id VAR has from then on.
func cmdSubmit(ts *testscript.TestScript, neg bool, args []string) {
	s := stageOf(ts)
	ts.Check(s.call(context.Background(), http.MethodPost, "/runs", readArg(ts, args, 1)))
	if (s.status == http.StatusCreated) == neg {
		ts.Fatalf("submit answered %d: %s", s.status, s.body)
	}
	if !neg {
		ts.Setenv(args[0], s.last.(map[string]any)["id"].(string))
	}
}

// call STATUS METHOD PATH [FILE | {json}]: makes a call that must have the
// status; a code after a colon must be that of the problem, as 409:wrong_phase.
func cmdCall(ts *testscript.TestScript, _ bool, args []string) {
	s := stageOf(ts)
	status, code, _ := strings.Cut(args[0], ":")
	body := readArg(ts, args, 3)
	if body == "" && args[1] != http.MethodGet {
		body = "{}"
	}
	ts.Check(s.call(context.Background(), args[1], args[2], body))
	if strconv.Itoa(s.status) != status {
		ts.Fatalf("%s %s answered %d, not %s: %s", args[1], args[2], s.status, status, s.body)
	}
	if code != "" && !strings.Contains(s.body, `"code":"`+code+`"`) {
		ts.Fatalf("%s %s has another code than %s: %s", args[1], args[2], code, s.body)
	}
}

// check EXPR: a jq expression on the last answer that must be true.
func cmdCheck(ts *testscript.TestScript, neg bool, args []string) {
	s := stageOf(ts)
	if got := s.query(ts, strings.Join(args, " ")); got != !neg {
		ts.Fatalf("%s is %v on %s", strings.Join(args, " "), got, s.body)
	}
}

// await ID EXPR: reads a run until the expression is true of it.
func cmdAwait(ts *testscript.TestScript, _ bool, args []string) {
	s := stageOf(ts)
	path := args[0]
	if !strings.HasPrefix(path, "/") {
		path = "/runs/" + path
	}
	deadline := time.Now().Add(time.Minute)
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		ts.Check(s.call(context.Background(), http.MethodGet, path, ""))
		if s.status == http.StatusOK && s.query(ts, strings.Join(args[1:], " ")) == true {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s did not become true of %s", strings.Join(args[1:], " "), s.body)
		}
		<-time.After(pause)
	}
}

// let VAR EXPR: sets a variable to what an expression yields.
func cmdLet(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], fmt.Sprint(stageOf(ts).query(ts, strings.Join(args[1:], " "))))
}

// header NAME VALUE: a header of the next call.
func cmdHeader(ts *testscript.TestScript, _ bool, args []string) {
	s := stageOf(ts)
	if s.headers == nil {
		s.headers = map[string]string{}
	}
	s.headers[args[0]] = args[1]
}

// log ID TASK QUERY WANT...: the log that the query selects must be the lines.
func cmdLog(ts *testscript.TestScript, _ bool, args []string) {
	s := stageOf(ts)
	ts.Check(s.call(context.Background(), http.MethodGet, "/runs/"+args[0]+"/tasks/"+args[1]+"/logs"+strings.TrimPrefix(args[2], "-"), ""))
	want := ""
	for _, line := range args[3:] {
		want += line + "\n"
	}
	if s.status != http.StatusOK || s.body != want {
		ts.Fatalf("the log is (%d)\n%s\nand not\n%s", s.status, s.body, want)
	}
}

// parallel N METHOD PATH FILE: makes calls at once. The last answer is the list
// of theirs, each with status and body.
func cmdParallel(ts *testscript.TestScript, _ bool, args []string) {
	s := stageOf(ts)
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	body := readArg(ts, args, 3)
	headers := s.headers
	s.headers = nil
	answers := make([]any, n)
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			one := &stage{server: s.server, token: s.token, http: s.http, headers: headers}
			errs[i] = one.call(context.Background(), args[1], args[2], body)
			answers[i] = map[string]any{"status": one.status, "body": one.last}
		})
	}
	all.Wait()
	for _, err := range errs {
		ts.Check(err)
	}
	s.last, s.body = answers, fmt.Sprint(answers)
}

// events QUERY EXPR: reads events until the expression is true of the list.
func cmdEvents(ts *testscript.TestScript, _ bool, args []string) {
	s := stageOf(ts)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.server+"/api/v1/events?"+args[0], nil)
	ts.Check(err)
	req.Header.Set("Authorization", "Bearer "+s.token)
	for name, value := range s.headers {
		req.Header.Set(name, value)
	}
	s.headers = nil
	resp, err := s.http.Do(req)
	ts.Check(err)
	defer func() { _ = resp.Body.Close() }()
	list := []any{}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var event any
		ts.Check(json.Unmarshal([]byte(data), &event))
		list = append(list, event)
		s.last, s.body = list, fmt.Sprint(list)
		if s.query(ts, strings.Join(args[1:], " ")) == true {
			return
		}
	}
	ts.Fatalf("the events ended before %s was true of %v", strings.Join(args[1:], " "), list)
}
