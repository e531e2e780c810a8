package gateway

import (
	"errors"

	"github.com/labstack/echo/v4"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// putBody is the resource in the body of a PUT request.
type putBody[T any] struct {
	resource *T
	data     []byte
	format   spec.Format
}

// readPut reads a resource. The body may repeat the name of the path.
func readPut[T any](
	s *Server, c echo.Context, name string, read func([]byte, spec.Format) (*T, error), nameOf func(*T) string,
) (putBody[T], error) {
	data, media, err := s.readBody(c)
	if err != nil {
		return putBody[T]{}, err
	}
	d := putBody[T]{data: data, format: spec.FormatYAML}
	if media == mediaJSON {
		d.format = spec.FormatJSON
	}
	if d.resource, err = read(data, d.format); err != nil {
		return putBody[T]{}, err
	}
	if own := nameOf(d.resource); own != "" && own != name {
		return putBody[T]{}, run.InvalidError("the name in the body differs from the name in the path", []run.Fault{
			{Path: "name", Code: run.FaultContradiction, Detail: "it differs from the name in the path of the request, " + name},
		})
	}
	return d, nil
}

// locateFaults adds line numbers to the faults of an error.
func (d putBody[T]) locateFaults(err error, locate func([]run.Fault, []byte, spec.Format) []run.Fault) error {
	refused, ok := errors.AsType[*run.Error](err)
	if !ok || len(refused.Faults) == 0 {
		return err
	}
	located := *refused
	located.Faults = locate(refused.Faults, d.data, d.format)
	return &located
}
