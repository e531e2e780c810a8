//go:build !linux

package fleetingtest

import (
	"context"
	"errors"
)

// Check fails: plugins run on Linux only.
func Check(context.Context, Options) ([]Step, error) {
	return nil, errors.New("fleeting plugins run on Linux only")
}
