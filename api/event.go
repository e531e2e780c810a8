package api

import "github.com/drover-run/drover/run"

// EventOf converts an event to the form of the API and of webhooks.
func EventOf(e run.Event) Event {
	return Event{
		Number: e.Number, Type: EventType(e.Type), Time: e.Time.UTC(), Run: string(e.Run), Group: e.Group,
		Phase: Phase(e.Phase), Result: Result(e.Result), Reason: e.Reason, Task: e.Task, Status: Status(e.Status), Stage: Stage(e.Stage),
		Attempt: e.Attempt, Executor: e.Executor, ExitCode: e.ExitCode,
		Action: Action(e.Action), Actor: e.Actor,
	}
}
