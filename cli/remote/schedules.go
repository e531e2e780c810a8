package remote

import (
	"bytes"
	"context"
	"net/http"

	"github.com/drover-run/drover/api"
)

// Schedules returns one page of schedules.
func (c *Client) Schedules(ctx context.Context, params *api.ListSchedulesParams) (Answer[api.ScheduleList], error) {
	return call[api.ScheduleList](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.api.ListSchedules(ctx, params)
	})
}

// Schedule returns a schedule.
func (c *Client) Schedule(ctx context.Context, name string) (Answer[api.Schedule], error) {
	return call[api.Schedule](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.api.GetSchedule(ctx, name)
	})
}

// PutSchedule creates or updates a schedule.
func (c *Client) PutSchedule(ctx context.Context, name string, body []byte, contentType string) (Answer[api.Schedule], error) {
	return call[api.Schedule](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.api.PutScheduleWithBody(ctx, name, contentType, bytes.NewReader(body))
	})
}

// DeleteSchedule deletes a schedule.
func (c *Client) DeleteSchedule(ctx context.Context, name string) error {
	_, err := call[struct{}](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.api.DeleteSchedule(ctx, name, api.DeleteScheduleJSONRequestBody{})
	})
	return err
}

// PauseSchedule pauses a schedule.
func (c *Client) PauseSchedule(ctx context.Context, name string, note api.ScheduleNote) (Answer[api.Schedule], error) {
	return call[api.Schedule](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.api.PauseSchedule(ctx, name, note)
	})
}

// ResumeSchedule resumes a schedule.
func (c *Client) ResumeSchedule(ctx context.Context, name string, note api.ScheduleNote) (Answer[api.Schedule], error) {
	return call[api.Schedule](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.api.ResumeSchedule(ctx, name, note)
	})
}

// TriggerSchedule fires a schedule now.
func (c *Client) TriggerSchedule(ctx context.Context, name string, trigger api.ScheduleTrigger) (Answer[api.Schedule], error) {
	return call[api.Schedule](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.api.TriggerSchedule(ctx, name, trigger)
	})
}

// BackfillSchedule fires a schedule for its times in the past.
func (c *Client) BackfillSchedule(ctx context.Context, name string, b api.ScheduleBackfill) (Answer[api.Schedule], error) {
	return call[api.Schedule](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.api.BackfillSchedule(ctx, name, b)
	})
}
