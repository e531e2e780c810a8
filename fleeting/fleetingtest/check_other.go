//go:build !linux

package fleetingtest

import (
	"context"
	"errors"
)

// Check fails: plugins are run on Linux alone.
func Check(context.Context, Options) ([]Step, error) {
	return nil, errors.New("fleeting plugins are run on Linux alone")
}
