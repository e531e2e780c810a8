package api

import "github.com/drover-run/drover/run"

// EventOf returns an event as clients and webhooks get it.
func EventOf(e run.Event) Event {
	return Event{
		Number: e.Number, Type: EventType(e.Type), Time: e.Time.UTC(), Run: string(e.Run), Group: e.Group,
		Phase: Phase(e.Phase), Result: Result(e.Result), Reason: e.Reason, Task: e.Task, Status: Status(e.Status),
		Attempt: e.Attempt, Executor: e.Executor, ExitCode: e.ExitCode,
	}
}
