//go:build !linux

package fleeting

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Host drives one instance group. Only Linux offers a way to end a plugin
// together with its host.
type Host struct{}

// errLinux is the error of all functions on other systems.
var errLinux = errors.New("fleeting plugins run on Linux only")

// Open fails.
func Open(context.Context, Options) (*Host, error) { return nil, errLinux }

// Guard fails.
func Guard(_ context.Context, _ []string, _, stderr io.Writer) int {
	_, _ = fmt.Fprintln(stderr, "plugin guard:", errLinux)
	return 1
}

// Check fails.
func Check(context.Context, Options, bool) (Report, error) { return Report{}, errLinux }

// Init fails.
func (*Host) Init(context.Context) (Info, error) { return Info{}, errLinux }

// Update fails.
func (*Host) Update(context.Context) ([]Instance, error) { return nil, errLinux }

// Increase fails.
func (*Host) Increase(context.Context, int) (int, error) { return 0, errLinux }

// Decrease fails.
func (*Host) Decrease(context.Context, []string) ([]string, error) { return nil, errLinux }

// ConnectInfo fails.
func (*Host) ConnectInfo(context.Context, string) (ConnectInfo, error) {
	return ConnectInfo{}, errLinux
}

// Heartbeat fails.
func (*Host) Heartbeat(context.Context, string) error { return errLinux }

// Suspend fails.
func (*Host) Suspend(context.Context, []string) ([]string, error) { return nil, errLinux }

// Resume fails.
func (*Host) Resume(context.Context, []string) ([]string, error) { return nil, errLinux }

// Restart fails.
func (*Host) Restart(context.Context) error { return errLinux }

// Shutdown fails.
func (*Host) Shutdown(context.Context) error { return errLinux }

// Close does nothing.
func (*Host) Close() error { return nil }
