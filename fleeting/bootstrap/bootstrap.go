package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/drover-run/drover/fleeting"
)

// names matches executor ids that are safe in paths and service names.
var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$`)

// Options configure how the instances of a fleet become executors.
type Options struct {
	// Executor is the configuration of the executors; required.
	Executor Executor
	// Binaries finds the programs to upload; required.
	Binaries *Binaries
	// HostKeys defines which host keys are trusted.
	HostKeys HostKeys
	// UseExternalAddr makes SSH connect to the external address of an instance.
	// The default is the internal address, if there is one.
	UseExternalAddr bool
	// Dir is an absolute directory on the hosts, below which all files are
	// stored. "": /var/lib/drover for root, .drover in the home of other users,
	// and C:\ProgramData\drover on Windows.
	Dir string
	// Sudo runs commands as root, for a user with passwordless sudo.
	Sudo bool
	// Ready is a command that succeeds once a host is ready for tasks. It runs
	// before the executor starts; if it fails, the host gets no tasks.
	Ready string
	// ReadyTimeout bounds Ready; 0 means 10 minutes.
	ReadyTimeout time.Duration
	// RegisterTimeout bounds the wait for the executor; 0 means 2 minutes.
	RegisterTimeout time.Duration
	// Interval is the time between two attempts to connect, and between two
	// checks whether the executor has registered; 0 means 2 s.
	Interval time.Duration
	Logger   *slog.Logger // nil: no logging
}

// Target is an instance and the executor that it becomes.
type Target struct {
	// Connect is the plugin's connect info of the instance.
	Connect fleeting.ConnectInfo
	// Executor is the executor's id.
	Executor string
	// HostKey is the key that an earlier call passed to StoreHostKey; "" if the
	// host is not known yet.
	HostKey string
	// StoreHostKey stores the host's key when it is first seen, before SSH sends
	// any credential to the host. If it fails, no credential is sent. Nil: the
	// key is only in the Result.
	StoreHostKey func(ctx context.Context, key string) error
	// Credential returns a bearer token that is valid only for this executor.
	Credential func(ctx context.Context) (string, error)
	// Registered reports whether the executor is online. Nil: Start does not
	// wait for it.
	Registered func(ctx context.Context) (bool, error)
	// Progress is called when a step begins. It may be nil.
	Progress func(Step)
}

// Result describes the host and the changes of a Start.
type Result struct {
	HostKey  string   `json:"host_key"` // the value for Target.HostKey
	OS       string   `json:"os"`
	Arch     string   `json:"arch"`
	Manager  string   `json:"manager"` // of services: systemd, launchd, schtasks or process
	Uploaded []string `json:"uploaded,omitempty"`
	Started  bool     `json:"started"` // false: it already ran with these settings
}

// SSH turns instances into executors over SSH. It is safe for concurrent use.
type SSH struct {
	o Options
}

// NewSSH checks the options. It does not connect.
func NewSSH(o Options) (*SSH, error) {
	if o.Binaries == nil {
		return nil, errors.New("bootstrap: the binaries of the worker are required")
	}
	if err := o.Executor.validate(); err != nil {
		return nil, err
	}
	if err := o.HostKeys.validate(); err != nil {
		return nil, err
	}
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{{&o.ReadyTimeout, 10 * time.Minute}, {&o.RegisterTimeout, 2 * time.Minute}, {&o.Interval, 2 * time.Second}} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &SSH{o: o}, nil
}

// Start turns the instance into an executor, or verifies that it is one, and
// replaces its credential. The failure of a step is an *Error.
func (s *SSH) Start(ctx context.Context, t Target) (Result, error) {
	var r Result
	if t.Credential == nil {
		return r, errors.New("bootstrap: a credential of the instance is required")
	}
	h, err := s.open(ctx, t, &r)
	if err != nil {
		return r, err
	}
	defer h.close()
	for _, step := range []func(context.Context, Target, *Result) error{h.upload, h.configure, h.ready, h.start, h.register} {
		if err := step(ctx, t, &r); err != nil {
			return r, err
		}
	}
	s.o.Logger.InfoContext(ctx, "instance bootstrapped", "instance_id", t.Connect.ID, "executor", t.Executor, "host", h.conn.host,
		"os", r.OS, "arch", r.Arch, "manager", r.Manager, "uploaded", r.Uploaded, "started", r.Started)
	return r, nil
}

// Stop stops the service of the executor and removes its credential from the
// instance. It does nothing on an instance that is no executor.
func (s *SSH) Stop(ctx context.Context, t Target) error {
	h, err := s.open(ctx, t, new(Result))
	if err != nil {
		return err
	}
	defer h.close()
	t.begin(StepStop)
	_, err = h.run(ctx, StepStop, h.system.stop(h.paths), nil)
	return err
}

// open connects and probes the host.
func (s *SSH) open(ctx context.Context, t Target, r *Result) (*host, error) {
	if !names.MatchString(t.Executor) {
		return nil, fmt.Errorf("bootstrap %s: %q is not a valid executor id", t.Connect.ID, t.Executor)
	}
	t.begin(StepConnect)
	conn, err := s.connect(ctx, t, r)
	if err != nil {
		return nil, err
	}
	h := &host{o: s.o, conn: conn}
	t.begin(StepProbe)
	if err := h.probe(ctx, t); err != nil {
		conn.close()
		return nil, err
	}
	r.OS, r.Arch, r.Manager = h.os, h.arch, h.paths.manager
	return h, nil
}

func (t Target) begin(step Step) {
	if t.Progress != nil {
		t.Progress(step)
	}
}
