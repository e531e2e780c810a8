//go:build !linux

package helper

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/drover-run/drover/run"
)

var errSupport = errors.New("helper containers work on Linux only")

// Options configure a helper.
type Options struct {
	Dir, Name   string
	Environment map[string]string
	WorkingDir  string
}

// Serve is not supported on this system.
func Serve(context.Context, Options) error { return errSupport }

// Client is not supported on this system.
type Client struct{}

// Connect is not supported on this system.
func Connect(context.Context, string, string, run.ShimSpec) (*Client, error) { return nil, errSupport }

// Run is not supported on this system.
func (c *Client) Run(Step, *os.File, *os.File) (*Process, error) { return nil, errSupport }

// Close does nothing.
func (c *Client) Close(time.Duration) {}

// Process is not supported on this system.
type Process struct{}

// Done returns nil.
func (p *Process) Done() <-chan struct{} { return nil }

// Result is not supported on this system.
func (p *Process) Result() (Result, error) { return Result{}, errSupport }

// Terminate does nothing.
func (p *Process) Terminate() {}

// Kill does nothing.
func (p *Process) Kill() {}
