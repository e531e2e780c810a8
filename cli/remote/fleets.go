package remote

import (
	"bytes"
	"context"
	"net/http"

	"github.com/drover-run/drover/api"
)

// fleetCalls are the calls on fleets.
type fleetCalls struct{ *caller }

// Fleets lists the fleets.
func (c fleetCalls) Fleets(ctx context.Context) (Answer[api.FleetList], error) {
	return call[api.FleetList](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.ListFleets(ctx)
	})
}

// Fleet returns a fleet.
func (c fleetCalls) Fleet(ctx context.Context, name string) (Answer[api.Fleet], error) {
	return call[api.Fleet](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.GetFleet(ctx, name)
	})
}

// PutFleet creates or updates a fleet.
func (c fleetCalls) PutFleet(ctx context.Context, name string, body []byte, contentType string) (Answer[api.Fleet], error) {
	return call[api.Fleet](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.PutFleetWithBody(ctx, name, contentType, bytes.NewReader(body))
	})
}

// DeleteFleet deletes a fleet after its instances.
func (c fleetCalls) DeleteFleet(ctx context.Context, name string) (Answer[api.Fleet], error) {
	return call[api.Fleet](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.DeleteFleet(ctx, name, api.DeleteFleetJSONRequestBody{})
	})
}

// FleetInstances returns the instance ledger of a fleet.
func (c fleetCalls) FleetInstances(ctx context.Context, name string, params *api.ListFleetInstancesParams) (Answer[api.FleetInstanceList], error) {
	return call[api.FleetInstanceList](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.ListFleetInstances(ctx, name, params)
	})
}

// FleetEvents returns the events of a fleet.
func (c fleetCalls) FleetEvents(ctx context.Context, name string, params *api.ListFleetEventsParams) (Answer[api.FleetEventList], error) {
	return call[api.FleetEventList](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.ListFleetEvents(ctx, name, params)
	})
}

// PauseFleet pauses a fleet.
func (c fleetCalls) PauseFleet(ctx context.Context, name string, why api.FleetReason) (Answer[api.Fleet], error) {
	return call[api.Fleet](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.PauseFleet(ctx, name, why)
	})
}

// ResumeFleet returns control of a fleet to its scaling policy.
func (c fleetCalls) ResumeFleet(ctx context.Context, name string, why api.FleetReason) (Answer[api.Fleet], error) {
	return call[api.Fleet](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.ResumeFleet(ctx, name, why)
	})
}

// DrainFleet drains all instances of a fleet.
func (c fleetCalls) DrainFleet(ctx context.Context, name string, why api.FleetReason) (Answer[api.Fleet], error) {
	return call[api.Fleet](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.DrainFleet(ctx, name, why)
	})
}

// ScaleFleet sets the number of instances manually.
func (c fleetCalls) ScaleFleet(ctx context.Context, name string, s api.FleetScale) (Answer[api.Fleet], error) {
	return call[api.Fleet](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.ScaleFleet(ctx, name, s)
	})
}

// FleetRollout returns the rollout of a fleet, and its revisions.
func (c fleetCalls) FleetRollout(ctx context.Context, name string) (Answer[api.FleetRollout], error) {
	return call[api.FleetRollout](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.GetFleetRollout(ctx, name)
	})
}

// UndoFleetRollout goes back to the settings of an earlier revision.
func (c fleetCalls) UndoFleetRollout(ctx context.Context, name string, u api.FleetUndo) (Answer[api.Fleet], error) {
	return call[api.Fleet](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.UndoFleetRollout(ctx, name, u)
	})
}

// PauseFleetRollout stops the replacement of instances of earlier revisions.
func (c fleetCalls) PauseFleetRollout(ctx context.Context, name string, why api.FleetReason) (Answer[api.Fleet], error) {
	return call[api.Fleet](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.PauseFleetRollout(ctx, name, why)
	})
}

// ResumeFleetRollout continues a rollout.
func (c fleetCalls) ResumeFleetRollout(ctx context.Context, name string, why api.FleetReason) (Answer[api.Fleet], error) {
	return call[api.Fleet](ctx, c.caller, func(ctx context.Context) (*http.Response, error) {
		return c.api.ResumeFleetRollout(ctx, name, why)
	})
}
