package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/drover-run/drover/run"
)

// The generated runs: one project has a fifth of them, the others share the
// rest. Few fail. The newest are open. A few of the running ones have an
// executor; the tasks of the others are queued.
const (
	projects    = 2000
	branches    = 8
	openQueued  = 2500
	openRunning = 3000
	executing   = 500
	creators    = 500
	nightly     = 100 // one of so many runs has a name and a creator of its own
)

// shape is the i-th of n runs.
type shape struct {
	id      run.ID
	project int
	group   string
	created time.Time
	phase   run.Phase
	result  run.Result
	commit  string
	env     string
	name    string
	creator string
	warned  bool // its task failed, which may fail
}

func shapes(n int, now time.Time) func(i int) shape {
	begin := now.Add(-time.Duration(n) * 10 * time.Second)
	return func(i int) shape {
		mix := uint32(i) * 2654435761 // a hash; it may wrap
		s := shape{created: begin.Add(time.Duration(i) * 10 * time.Second), phase: run.PhaseFinished, result: run.ResultSuccess}
		if mix%5 != 0 {
			s.project = 1 + int(mix>>8)%(projects-1)
		}
		s.group = fmt.Sprintf("/project/%d/branch/%d", s.project, mix>>20%branches)
		s.commit, s.env = fmt.Sprintf("%08x", i/5), []string{"dev", "dev", "dev", "prod"}[mix>>4%4]
		s.name, s.creator = "build-and-test", fmt.Sprintf("user-%d", mix>>6%creators)
		if mix>>16%nightly == 0 {
			s.name, s.creator = "nightly", "schedule:nightly"
		}
		switch {
		case i >= n-openRunning:
			s.phase, s.result = run.PhaseRunning, run.ResultUnknown
		case i >= n-openRunning-openQueued:
			s.phase, s.result = run.PhaseQueued, run.ResultUnknown
		case mix>>12%100 < 2:
			s.result = run.ResultFailed
		case mix>>12%100 < 3:
			s.result = run.ResultStopped
		case mix>>12%100 < 4:
			s.warned = true
		}
		id := ulid.MustNew(ulid.Timestamp(s.created), rand.Reader)
		s.id = run.ID(strings.ToLower(id.String()))
		return s
	}
}

func (s shape) changeGroup() string { return fmt.Sprintf("project-%d", s.project) }

// tenant is the path in and below which the run's tenant has roles.
func (s shape) tenant() string { return fmt.Sprintf("/project/%d", s.project) }

// sink receives rows of tables. All rows of one table have the same columns.
type sink interface {
	put(table string, row ...any) error
	flush(ctx context.Context) error
}

// columns lists the written columns; the others keep their defaults.
var columns = map[string][]string{
	"runs": {
		"id", "name", "group_path", "counter", "priority", "admission", "admitted", "phase", "result", "reason", "created_at",
		"started_at", "ended_at", "counts", "grouped", "version",
	},
	"run_details":     {"run_id", "header", "secret_names", "annotations", "created_by"},
	"run_states":      {"prefix", "state", "run_id"},
	"run_annotations": {"name", "value", "run_id"},
	"run_inputs":      {"name", "value", "run_id"},
	"run_warnings":    {"run_id"},
	"plan_pages":      {"run_id", "page", "plan"},
	"task_specs":      {"run_id", "node", "spec", "matrix"},
	"tasks": {
		"run_id", "number", "node", "name", "spec_name", "axis", "pool", "status", "attempt", "dispatch",
		"executor", "exit_code", "queued_at", "started_at", "ended_at", "steps",
	},
	"run_changegroups": {"name", "run_id", "state", "priority", "since"},
	"changegroups":     {"name", "max_running"},
	"claims":           {"run_id", "task", "attempt", "dispatch", "executor", "journal_id", "claimed_at"},
	"log_batches":      {"run_id", "task", "attempt", "dispatch", "first_frame", "last_frame", "task_end", "bytes", "outline"},
}

// generate writes n runs of one task each, with the rows that the product
// writes for them.
func generate(ctx context.Context, to sink, n int, now time.Time) error {
	header, spec, err := texts()
	if err != nil {
		return err
	}
	for p := range projects {
		if err := to.put("changegroups", fmt.Sprintf("project-%d", p), 1); err != nil {
			return err
		}
	}
	shapeAt := shapes(n, now)
	for i := range n {
		if err := write(to, shapeAt(i), i, header, spec); err != nil {
			return err
		}
		if (i+1)%20000 == 0 || i == n-1 {
			if err := to.flush(ctx); err != nil {
				return err
			}
			if (i+1)%200000 == 0 {
				fmt.Fprintf(os.Stderr, "%d runs\n", i+1)
			}
		}
	}
	return nil
}

// texts returns the texts of all runs. The header has places for the values of the inputs, in
// the order of their names.
func texts() (header, spec string, err error) {
	h, err := json.Marshal(run.Spec{
		Name: "build-and-test", Group: "/project/42/branch/1", Environment: map[string]string{"GOFLAGS": "-trimpath", "CI": "1"},
		Inputs: map[string]run.Input{"commit": {}, "env": {}}, InputValues: map[string]string{"commit": "%s", "env": "%s"},
	})
	if err != nil {
		return "", "", fmt.Errorf("encode a header: %w", err)
	}
	s, err := json.Marshal(run.TaskSpec{Pool: "shell", Steps: []run.Step{{Run: "go build ./..."}, {Name: "test", Run: "go test ./..."}}})
	if err != nil {
		return "", "", fmt.Errorf("encode a task: %w", err)
	}
	return string(h), string(s), nil
}

func write(to sink, s shape, i int, header, spec string) error {
	// The values of a finished task; the cases below clear some of them.
	started, ended := s.created.Add(time.Second).UnixNano(), s.created.Add(8*time.Second).UnixNano()
	begun, status, slotState, executor, attempt := started, "success", "done", "host-1", 1
	var code any = 0
	step := `{"status":"success","exit_code":0,"started":"2026-01-02T03:04:05.123456789Z","ended":"2026-01-02T03:04:09.123456789Z"}`
	steps := "[" + step + "," + step + "]"
	waits := s.phase == run.PhaseRunning && i%(openRunning/executing) != 0
	switch {
	case s.phase == run.PhaseQueued:
		started, begun, ended, status, slotState, executor, attempt, code, steps = 0, 0, 0, "not_started", "waiting", "", 0, nil, ""
	case waits:
		begun, ended, status, slotState, executor, code, steps = 0, 0, "queued", "holding", "", nil, ""
	case s.phase == run.PhaseRunning:
		ended, status, slotState, code = 0, "running", "holding", nil
	case s.warned:
		status, code = "failed", 1
	case s.result != run.ResultSuccess:
		status, code = string(s.result), 1
	}
	prefixes := []string{"", "/project", fmt.Sprintf("/project/%d", s.project), fmt.Sprintf("/project/%d/branch", s.project), s.group}
	put := func(errs *error, table string, row ...any) {
		if *errs == nil {
			*errs = to.put(table, row...)
		}
	}
	var err error
	put(&err, "runs", string(s.id), s.name, s.group, i, 3, "auto", false, string(s.phase), string(s.result), "", s.created.UnixNano(),
		started, ended, `{"`+status+`":1}`, true, 5)
	header = fmt.Sprintf(header, s.commit, s.env)
	put(&err, "run_details", string(s.id), header, "null", fmt.Sprintf(`{"commit":%q,"env":%q}`, s.commit, s.env), s.creator)
	put(&err, "run_annotations", "commit", s.commit, string(s.id))
	put(&err, "run_annotations", "env", s.env, string(s.id))
	put(&err, "run_inputs", "commit", s.commit, string(s.id))
	put(&err, "run_inputs", "env", s.env, string(s.id))
	if s.warned {
		put(&err, "run_warnings", string(s.id))
	}
	put(&err, "plan_pages", string(s.id), 0, `{"priority":3,"group":"/project/42/branch/1","name":"build-and-test","pools":["shell"],"nodes":[{"n":"build","f":0,"w":1}]}`)
	put(&err, "task_specs", string(s.id), 0, spec, "null")
	put(&err, "tasks", string(s.id), 0, 0, "build", "build", "", "shell", status, attempt, attempt,
		executor, code, started, begun, ended, steps)
	put(&err, "run_changegroups", s.changeGroup(), string(s.id), slotState, 3, s.created.UnixNano())
	if s.phase != run.PhaseQueued && !waits {
		put(&err, "claims", string(s.id), 0, 1, 1, executor, "journal", started)
		put(&err, "log_batches", string(s.id), 0, 1, 1, 1, 12, ended != 0, 1400,
			`{"f":"2026-01-02T03:04:05Z","t":"2026-01-02T03:04:06Z","p":[{"s":0,"o":"stdout","n":640,"l":12}],"e":[0],"b":true,"x":true}`)
	}
	state := string(s.phase)
	if s.phase == run.PhaseFinished {
		state = string(s.result)
	}
	for _, prefix := range prefixes {
		put(&err, "run_states", prefix, state, string(s.id))
	}
	return err
}
