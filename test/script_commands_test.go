package test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
	"go.temporal.io/sdk/client"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/test/harness"
)

// commands returns the commands that scripts have besides those of testscript.
// docs/testing.md lists them.
func commands() map[string]func(ts *testscript.TestScript, neg bool, args []string) {
	return map[string]func(ts *testscript.TestScript, neg bool, args []string){
		"submit": cmdSubmit, "call": cmdCall, "header": cmdHeader, "parallel": cmdParallel,
		"check": cmdCheck, "let": cmdLet, "await": cmdAwait, "await-status": cmdAwaitStatus, "log": cmdLog, "follow": cmdFollow, "events": cmdEvents,
		"workflow": cmdWorkflow, "await-workflow": cmdAwaitWorkflow, "parts": cmdParts, "crash": cmdCrash, "launch": cmdLaunch, "as": cmdAs,
		"executor": cmdExecutor,
	}
}

// submit VAR FILE: creates a run and sets VAR to its id.
func cmdSubmit(ts *testscript.TestScript, _ bool, args []string) {
	atLeast(ts, args, 2, "submit VAR FILE")
	s := scriptEnvOf(ts)
	s.do(ts, http.MethodPost, "/runs", s.input(ts, args, 1))
	if s.status != http.StatusCreated {
		ts.Fatalf("submit: status %d: %s", s.status, s.body)
	}
	s.set(ts, args[0], s.value.(map[string]any)["id"].(string))
}

// call STATUS[:CODE] METHOD PATH [FILE | {json}]: makes a call, whose response
// must have the status, and the problem code if one is given, as 409:wrong_phase.
func cmdCall(ts *testscript.TestScript, _ bool, args []string) {
	atLeast(ts, args, 3, "call STATUS[:CODE] METHOD PATH [FILE | {json}]")
	s := scriptEnvOf(ts)
	status, code, _ := strings.Cut(args[0], ":")
	body := s.input(ts, args, 3)
	if body == "" && args[1] != http.MethodGet {
		body = "{}"
	}
	s.do(ts, args[1], args[2], body)
	if strconv.Itoa(s.status) != status {
		ts.Fatalf("%s %s: status %d, want %s: %s", args[1], args[2], s.status, status, s.body)
	}
	if problem, _ := s.value.(map[string]any); code != "" && problem["code"] != code {
		ts.Fatalf("%s %s: want problem code %s: %s", args[1], args[2], code, s.body)
	}
}

// header NAME VALUE: sets a header of the next call.
func cmdHeader(ts *testscript.TestScript, _ bool, args []string) {
	atLeast(ts, args, 2, "header NAME VALUE")
	s := scriptEnvOf(ts)
	if s.headers == nil {
		s.headers = map[string]string{}
	}
	s.headers[args[0]] = args[1]
}

// parallel N METHOD PATH [FILE | {json}]: makes N calls at once. The last
// response becomes the list of their responses, each with status, body and header.
func cmdParallel(ts *testscript.TestScript, _ bool, args []string) {
	atLeast(ts, args, 3, "parallel N METHOD PATH [FILE | {json}]")
	s := scriptEnvOf(ts)
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	body := s.input(ts, args, 3)
	answers, errs := make([]any, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			var a answer
			a, errs[i] = s.call(args[1], args[2], body)
			header := map[string]any{}
			for name := range a.header {
				header[name] = a.header.Get(name)
			}
			answers[i] = map[string]any{"status": a.status, "body": a.value, "header": header}
		})
	}
	all.Wait()
	for _, err := range errs {
		ts.Check(err)
	}
	s.answer, s.headers = answer{value: answers, body: fmt.Sprint(answers)}, nil
}

// check EXPR: fails unless a jq expression is true of the last response.
func cmdCheck(ts *testscript.TestScript, neg bool, args []string) {
	s := scriptEnvOf(ts)
	expr := strings.Join(args, " ")
	if got := s.query(ts, expr); got != !neg {
		ts.Fatalf("%s is %v on %s", expr, got, s.body)
	}
}

// let VAR EXPR: sets a variable to the value of an expression on the last
// response.
func cmdLet(ts *testscript.TestScript, _ bool, args []string) {
	atLeast(ts, args, 2, "let VAR EXPR")
	s := scriptEnvOf(ts)
	s.set(ts, args[0], fmt.Sprint(s.query(ts, strings.Join(args[1:], " "))))
}

// await ID|PATH EXPR: reads a run, or a path, until the expression is true of the
// response.
func cmdAwait(ts *testscript.TestScript, _ bool, args []string) {
	atLeast(ts, args, 2, "await ID|PATH EXPR")
	s := scriptEnvOf(ts)
	path, expr := args[0], strings.Join(args[1:], " ")
	if !strings.HasPrefix(path, "/") {
		path = "/runs/" + path
	}
	s.until(ts, func() (bool, string) {
		a, err := s.call(http.MethodGet, path, "")
		if err != nil {
			return false, err.Error() // the script may have killed the gateway
		}
		s.answer = a
		return s.status == http.StatusOK && s.query(ts, expr) == true, expr + " is not true of " + s.body
	})
}

// await-status STATUS PATH: reads a path until the response has the status.
func cmdAwaitStatus(ts *testscript.TestScript, _ bool, args []string) {
	atLeast(ts, args, 2, "await-status STATUS PATH")
	s := scriptEnvOf(ts)
	s.until(ts, func() (bool, string) {
		a, err := s.call(http.MethodGet, args[1], "")
		if err != nil {
			return false, err.Error()
		}
		s.answer = a
		return strconv.Itoa(s.status) == args[0], fmt.Sprintf("%s: status %d: %s", args[1], s.status, s.body)
	})
}

// log ID TASK QUERY LINE...: fails unless the log that the query selects consists
// of the lines.
func cmdLog(ts *testscript.TestScript, _ bool, args []string) {
	atLeast(ts, args, 3, "log ID TASK QUERY LINE...")
	s := scriptEnvOf(ts)
	s.do(ts, http.MethodGet, "/runs/"+args[0]+"/tasks/"+args[1]+"/logs"+args[2], "")
	if want := lines(args[3:]); s.status != http.StatusOK || s.body != want {
		ts.Fatalf("the log is (status %d)\n%s\nwant\n%s", s.status, s.body, want)
	}
}

func lines(of []string) string {
	var b strings.Builder
	for _, line := range of {
		b.WriteString(line + "\n")
	}
	return b.String()
}

// follow ID TASK QUERY FILE LINE...: follows the log that the query selects. It
// creates FILE when it has read the first line, so that a step can wait for that
// before it writes more. The log must end by itself and consist of the lines.
func cmdFollow(ts *testscript.TestScript, _ bool, args []string) {
	atLeast(ts, args, 5, "follow ID TASK QUERY FILE LINE...")
	s := scriptEnvOf(ts)
	ctx, cancel := s.context()
	defer cancel()
	resp, err := s.send(ctx, http.MethodGet, "/runs/"+args[0]+"/tasks/"+args[1]+"/logs"+args[2], "")
	ts.Check(err)
	defer func() { _ = resp.Body.Close() }()
	var got strings.Builder
	scanner := bufio.NewScanner(resp.Body)
	for scanner.Scan() {
		if got.Len() == 0 {
			ts.Check(os.WriteFile(ts.MkAbs(args[3]), nil, 0o600))
		}
		got.WriteString(scanner.Text() + "\n")
	}
	ts.Check(scanner.Err())
	if want := lines(args[4:]); resp.StatusCode != http.StatusOK || got.String() != want {
		ts.Fatalf("the followed log is (status %d)\n%s\nwant\n%s", resp.StatusCode, got.String(), want)
	}
}

// events QUERY EXPR: reads events until the expression is true of their list.
func cmdEvents(ts *testscript.TestScript, _ bool, args []string) {
	atLeast(ts, args, 2, "events QUERY EXPR")
	s := scriptEnvOf(ts)
	expr := strings.Join(args[1:], " ")
	ctx, cancel := s.context()
	defer cancel()
	resp, err := s.send(ctx, http.MethodGet, "/events?"+args[0], "")
	ts.Check(err)
	s.headers = nil
	defer func() { _ = resp.Body.Close() }()
	list := []any{}
	for scanner := bufio.NewScanner(resp.Body); scanner.Scan(); {
		data, ok := strings.CutPrefix(scanner.Text(), "data: ")
		if !ok {
			continue
		}
		var event any
		ts.Check(json.Unmarshal([]byte(data), &event))
		list = append(list, event)
		s.answer = answer{value: list, body: fmt.Sprint(list)}
		if s.query(ts, expr) == true {
			return
		}
	}
	ts.Fatalf("the events ended (status %d) before %s was true of %v", resp.StatusCode, expr, list)
}

// workflow ID: the last response becomes the state of the workflow of a run:
// open, idle (no pending workflow task or activity), and events, the length of
// its history.
func cmdWorkflow(ts *testscript.TestScript, _ bool, args []string) {
	atLeast(ts, args, 1, "workflow ID")
	s := scriptEnvOf(ts)
	c := s.dial(ts)
	defer c.Close()
	ts.Check(s.readWorkflow(c, args[0]))
}

// await-workflow ID EXPR: repeats workflow until the expression is true.
func cmdAwaitWorkflow(ts *testscript.TestScript, _ bool, args []string) {
	atLeast(ts, args, 2, "await-workflow ID EXPR")
	s := scriptEnvOf(ts)
	c := s.dial(ts)
	defer c.Close()
	expr := strings.Join(args[1:], " ")
	s.until(ts, func() (bool, string) {
		if err := s.readWorkflow(c, args[0]); err != nil {
			return false, err.Error()
		}
		return s.query(ts, expr) == true, expr + " is not true of " + s.body
	})
}

func (s *scriptEnv) dial(ts *testscript.TestScript) client.Client {
	ctx, cancel := s.context()
	defer cancel()
	c, err := client.DialContext(ctx, client.Options{HostPort: s.temporal, Namespace: contract.Namespace})
	ts.Check(err)
	return c
}

func (s *scriptEnv) readWorkflow(c client.Client, id string) error {
	ctx, cancel := s.context()
	defer cancel()
	state, err := workflowOf(ctx, c, id)
	if err != nil {
		return err
	}
	value := map[string]any{"open": state.open, "idle": state.idle, "events": state.events}
	s.answer = answer{value: value, body: fmt.Sprint(value)}
	return nil
}

// parts [PART:VARIABLE=VALUE]...: from here on the script uses a Drover of its
// own, in separate processes, whose executor has 4 slots.
func cmdParts(ts *testscript.TestScript, _ bool, args []string) {
	s := scriptEnvOf(ts)
	env := map[harness.Part][]string{}
	for _, arg := range args {
		part, variable, _ := strings.Cut(arg, ":")
		env[harness.Part(part)] = append(env[harness.Part(part)], variable)
	}
	s.parts = harness.StartParts(s.t, "4", env)
	s.set(ts, "BLOBS", filepath.Join(s.parts.Dir, "blobs"))
	s.server, s.token, s.temporal = s.parts.Server, s.parts.Token, s.parts.Temporal()
}

// executor NAME: starts another executor, which becomes the part NAME.
func cmdExecutor(ts *testscript.TestScript, _ bool, args []string) {
	atLeast(ts, args, 1, "executor NAME")
	parts := scriptEnvOf(ts).parts
	p := parts.AddExecutor(args[0], "4")
	p.AwaitReady()
	parts.Processes[harness.Part(args[0])] = p
}

// crash PART...: kills parts with SIGKILL.
func cmdCrash(ts *testscript.TestScript, _ bool, args []string) {
	for _, part := range args {
		scriptEnvOf(ts).parts.Processes[harness.Part(part)].Kill()
	}
}

// launch PART...: starts parts again.
func cmdLaunch(ts *testscript.TestScript, _ bool, args []string) {
	for _, part := range args {
		scriptEnvOf(ts).parts.Launch(harness.Part(part)).AwaitReady()
	}
}

// as NAME SCOPE: makes the next calls as another client. It requires parts.
func cmdAs(ts *testscript.TestScript, _ bool, args []string) {
	atLeast(ts, args, 2, "as NAME SCOPE")
	s := scriptEnvOf(ts)
	s.token = s.parts.TokenFor(args[0], args[1])
	// The gateway checks its token file once a second.
	s.until(ts, func() (bool, string) {
		a, err := s.call(http.MethodGet, "/runs?limit=1", "")
		return err == nil && a.status != http.StatusUnauthorized, "the token is not known yet"
	})
}
