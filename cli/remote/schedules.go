package remote

import (
	"bytes"
	"context"
	"net/http"

	"github.com/drover-run/drover/api"
)

// scheduleCalls are the calls on schedules.
type scheduleCalls struct{ *caller }

// Schedules returns one page of schedules.
func (c scheduleCalls) Schedules(ctx context.Context, params *api.ListSchedulesParams) (Answer[api.ScheduleList], error) {
	return call[api.ScheduleList](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.ListSchedules(ctx, params)
	})
}

// Schedule returns a schedule.
func (c scheduleCalls) Schedule(ctx context.Context, name string) (Answer[api.Schedule], error) {
	return call[api.Schedule](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.GetSchedule(ctx, name)
	})
}

// PutSchedule creates or updates a schedule.
func (c scheduleCalls) PutSchedule(ctx context.Context, name string, body []byte, contentType string) (Answer[api.Schedule], error) {
	return call[api.Schedule](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.PutScheduleWithBody(ctx, name, contentType, bytes.NewReader(body))
	})
}

// DeleteSchedule deletes a schedule.
func (c scheduleCalls) DeleteSchedule(ctx context.Context, name string) error {
	_, err := call[struct{}](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.DeleteSchedule(ctx, name, api.DeleteScheduleJSONRequestBody{})
	})
	return err
}

// PauseSchedule pauses a schedule.
func (c scheduleCalls) PauseSchedule(ctx context.Context, name string, note api.ScheduleNote) (Answer[api.Schedule], error) {
	return call[api.Schedule](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.PauseSchedule(ctx, name, note)
	})
}

// ResumeSchedule resumes a schedule.
func (c scheduleCalls) ResumeSchedule(ctx context.Context, name string, note api.ScheduleNote) (Answer[api.Schedule], error) {
	return call[api.Schedule](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.ResumeSchedule(ctx, name, note)
	})
}

// TriggerSchedule fires a schedule now.
func (c scheduleCalls) TriggerSchedule(ctx context.Context, name string, trigger api.ScheduleTrigger) (Answer[api.Schedule], error) {
	return call[api.Schedule](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.TriggerSchedule(ctx, name, trigger)
	})
}

// BackfillSchedule fires a schedule for its times in the past.
func (c scheduleCalls) BackfillSchedule(ctx context.Context, name string, b api.ScheduleBackfill) (Answer[api.Schedule], error) {
	return call[api.Schedule](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.BackfillSchedule(ctx, name, b)
	})
}
