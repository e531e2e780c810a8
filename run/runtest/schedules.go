package runtest

import (
	"context"

	"github.com/drover-run/drover/run"
)

// Schedules is a run.Schedules made of functions.
type Schedules struct {
	SchedulesFunc        func(run.ScheduleQuery) (run.SchedulePage, error)
	ScheduleFunc         func(name string) (run.Schedule, error)
	ScheduleGroupFunc    func(name string) (string, error)
	PutScheduleFunc      func(spec run.ScheduleSpec, subject string) (_ run.Schedule, created bool, _ error)
	DeleteScheduleFunc   func(name string) error
	PauseScheduleFunc    func(name, note string) (run.Schedule, error)
	ResumeScheduleFunc   func(name, note string) (run.Schedule, error)
	TriggerScheduleFunc  func(name string, overlap run.Overlap) (run.Schedule, error)
	BackfillScheduleFunc func(name string, b run.Backfill) (run.Schedule, error)
}

var _ run.Schedules = (*Schedules)(nil)

// Schedules implements run.Schedules.
func (s *Schedules) Schedules(_ context.Context, q run.ScheduleQuery) (run.SchedulePage, error) {
	if s.SchedulesFunc == nil {
		return run.SchedulePage{}, unset("Schedules")
	}
	return s.SchedulesFunc(q)
}

// Schedule implements run.Schedules.
func (s *Schedules) Schedule(_ context.Context, name string) (run.Schedule, error) {
	if s.ScheduleFunc == nil {
		return run.Schedule{}, unset("Schedule")
	}
	return s.ScheduleFunc(name)
}

// ScheduleGroup implements run.Schedules.
func (s *Schedules) ScheduleGroup(_ context.Context, name string) (string, error) {
	if s.ScheduleGroupFunc == nil {
		return "", unset("ScheduleGroup")
	}
	return s.ScheduleGroupFunc(name)
}

// PutSchedule implements run.Schedules.
func (s *Schedules) PutSchedule(_ context.Context, spec run.ScheduleSpec, subject string) (_ run.Schedule, created bool, _ error) {
	if s.PutScheduleFunc == nil {
		return run.Schedule{}, false, unset("PutSchedule")
	}
	return s.PutScheduleFunc(spec, subject)
}

// DeleteSchedule implements run.Schedules.
func (s *Schedules) DeleteSchedule(_ context.Context, name string) error {
	if s.DeleteScheduleFunc == nil {
		return unset("DeleteSchedule")
	}
	return s.DeleteScheduleFunc(name)
}

// PauseSchedule implements run.Schedules.
func (s *Schedules) PauseSchedule(_ context.Context, name, note string) (run.Schedule, error) {
	if s.PauseScheduleFunc == nil {
		return run.Schedule{}, unset("PauseSchedule")
	}
	return s.PauseScheduleFunc(name, note)
}

// ResumeSchedule implements run.Schedules.
func (s *Schedules) ResumeSchedule(_ context.Context, name, note string) (run.Schedule, error) {
	if s.ResumeScheduleFunc == nil {
		return run.Schedule{}, unset("ResumeSchedule")
	}
	return s.ResumeScheduleFunc(name, note)
}

// TriggerSchedule implements run.Schedules.
func (s *Schedules) TriggerSchedule(_ context.Context, name string, overlap run.Overlap) (run.Schedule, error) {
	if s.TriggerScheduleFunc == nil {
		return run.Schedule{}, unset("TriggerSchedule")
	}
	return s.TriggerScheduleFunc(name, overlap)
}

// BackfillSchedule implements run.Schedules.
func (s *Schedules) BackfillSchedule(_ context.Context, name string, b run.Backfill) (run.Schedule, error) {
	if s.BackfillScheduleFunc == nil {
		return run.Schedule{}, unset("BackfillSchedule")
	}
	return s.BackfillScheduleFunc(name, b)
}
