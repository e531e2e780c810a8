package clitest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/inputs"
	"github.com/drover-run/drover/spec"
)

// add stores a run and begins its simulation. The caller must hold the lock.
func (g *Gateway) add(s *run.Spec) api.Run {
	r := RunOf(fmt.Sprintf("run-%d", len(g.groups.specs)+1), s)
	g.runs = append(g.runs, &r)
	g.groups.specs[r.ID] = s
	g.notify()
	if !g.paused && s.Admission != run.AdmissionManual {
		g.simulations.Go(func() { g.simulate(r.ID, s) })
	}
	shown := r
	shown.Tasks = make(map[string]api.Task)
	maps.Copy(shown.Tasks, r.Tasks)
	return shown
}

// RunOf returns the run of a specification in its initial state.
func RunOf(id string, s *run.Spec) api.Run {
	if resolved, _, faults := inputs.Resolve(s, inputs.MissingFault); len(faults) == 0 {
		s = resolved
	}
	r := api.Run{
		ID: id, Counter: 1, Name: s.Name, Group: s.Group, Changegroups: slices.Concat([]string{}, s.ChangeGroups), Priority: 3, Admission: api.AdmissionAuto,
		Phase: api.PhaseQueued, Result: api.ResultUnknown, Annotations: s.Annotations, Environment: s.Environment, InputValues: s.TypedInputs(),
		SecretNames: slices.AppendSeq([]string{}, maps.Keys(s.Secrets)), CreatedAt: Start(), Tasks: make(map[string]api.Task),
	}
	slices.Sort(r.SecretNames)
	if s.Admission == run.AdmissionManual {
		r.Admission, r.Reason = api.AdmissionManual, "waits to be started: its admission is manual"
	}
	x, _ := spec.Expand(s, nil)
	for i, t := range x.Tasks {
		task := api.Task{Number: i, Status: api.StatusNotStarted, Pool: "shell", AllowFailure: s.Tasks[t.Spec].AllowFailure}
		for _, step := range s.Tasks[t.Spec].Steps {
			task.Steps = append(task.Steps, api.Step{Name: step.Name, Type: "run", Status: api.StatusNotStarted})
		}
		if n := s.Tasks[t.Spec].Approval.Approvers; n > 0 {
			task.Approval = api.TaskApproval{Approvers: n, ApprovedBy: []string{}}
		}
		r.Tasks[t.Name] = task
	}
	return r
}

// simulate simulates a run: its tasks one after the other. Their scripts may echo,
// exit, and wait until the run is stopped.
func (g *Gateway) simulate(id string, s *run.Spec) {
	result := api.ResultSuccess
	var warnings []string
	g.Emit(api.Event{Type: api.EventTypeRun, Run: id, Phase: api.PhaseRunning, Result: api.ResultUnknown})
	x, _ := spec.Expand(s, nil)
	for _, t := range x.Tasks {
		if result != api.ResultSuccess {
			g.Emit(api.Event{Type: api.EventTypeTask, Run: id, Task: t.Name, Status: api.StatusSkipped, Reason: "a task before it did not succeed"})
			continue
		}
		def := s.Tasks[t.Spec]
		if def.Approval.Approvers > 0 && !g.awaitApproval(id, t.Name) {
			return
		}
		switch status := g.simulateTask(id, t.Name, def); {
		case status == api.StatusFailed && def.AllowFailure:
			warnings = append(warnings, t.Name)
		case status == api.StatusFailed:
			result = api.ResultFailed
			g.Emit(api.Event{Type: api.EventTypeRun, Run: id, Phase: api.PhaseRunning, Result: result})
		case status == api.StatusStopped:
			result = api.ResultStopped
		}
	}
	reason := ""
	if result == api.ResultSuccess && warnings != nil {
		reason = "with warnings: " + strings.Join(warnings, ", ") + " failed"
	}
	g.Emit(api.Event{Type: api.EventTypeRun, Run: id, Phase: api.PhaseFinished, Result: result, Reason: reason})
}

func (g *Gateway) awaitApproval(id, task string) bool {
	g.Emit(api.Event{Type: api.EventTypeTask, Run: id, Task: task, Status: api.StatusWaitingApproval, Reason: "0 of 1 approved"})
	return g.waitUntil(func() bool { return g.approved[id+"/"+task] })
}

// waitUntil waits for a condition on state that the lock guards, and returns false if
// the test ends.
func (g *Gateway) waitUntil(holds func() bool) bool {
	for {
		g.mu.Lock()
		done, changed := holds(), g.changed
		g.mu.Unlock()
		if done {
			return true
		}
		select {
		case <-changed:
		case <-g.closed:
			return false
		case <-testenv.Expired(g.t):
			g.t.Error("the condition did not become true")
			return false
		}
	}
}

func (g *Gateway) simulateTask(id, name string, def *run.TaskSpec) api.Status {
	event := func(status api.Status, reason string, exit *int) {
		g.Emit(api.Event{Type: api.EventTypeTask, Run: id, Task: name, Status: status, Reason: reason, Attempt: 1, Executor: executorOf(status), ExitCode: exit})
	}
	event(api.StatusQueued, "", nil)
	event(api.StatusRunning, "", nil)
	defer g.EndLog(id, name, 1)
	for i, step := range def.Steps {
		for line := range strings.Lines(step.Run) {
			line = strings.TrimSpace(line)
			switch text, ok := strings.CutPrefix(line, "echo "); {
			case ok:
				WriteStep(g, id, name, 1, i, text+"\n")
			case line == "wait":
				if !g.waitUntil(func() bool { return g.stopped[id] }) {
					return api.StatusStopped
				}
				event(api.StatusStopped, "the run was stopped", nil)
				return api.StatusStopped
			case line == "exit 3":
				code := 3
				event(api.StatusFailed, fmt.Sprintf("step %d exited with code 3", i), &code)
				return api.StatusFailed
			}
		}
	}
	event(api.StatusSuccess, "", new(int))
	return api.StatusSuccess
}

func executorOf(s api.Status) string {
	if s == api.StatusQueued {
		return ""
	}
	return "host-7"
}

// AwaitStatus waits until a task has a status, and reports whether it has.
func (g *Gateway) AwaitStatus(id, task, status string) bool {
	return g.waitUntil(func() bool {
		r := g.find(id)
		return r != nil && string(r.Tasks[task].Status) == status
	})
}
