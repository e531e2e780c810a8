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

// names are ids of executors as they get into paths and names of services.
var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$`)

// Options say how the instances of a fleet become executors.
type Options struct {
	// Executor is the configuration of the executors; required.
	Executor Executor
	// Binaries finds what is uploaded; required.
	Binaries *Binaries
	// HostKeys says which hosts are believed to be who they are.
	HostKeys HostKeys
	// UseExternalAddr connects to the external address of an instance; else it
	// is the internal one where there is one.
	UseExternalAddr bool
	// Dir is the absolute directory on the hosts that everything is kept below.
	// "": /var/lib/drover for root, .drover in the home of other users, and
	// C:\ProgramData\drover on Windows.
	Dir string
	// Sudo has commands run as root by a user who may sudo without a password.
	Sudo bool
	// Ready is a command that succeeds once a host is ready for tasks. It is run
	// before the executor is started: what fails it takes none.
	Ready string
	// ReadyTimeout bounds Ready; 0 means 10 minutes.
	ReadyTimeout time.Duration
	// RegisterTimeout bounds the wait for the executor; 0 means 2 minutes.
	RegisterTimeout time.Duration
	// Interval is between two attempts to connect, or questions whether the
	// executor registered; 0 means 2 s.
	Interval time.Duration
	Logger   *slog.Logger // nil: nothing is logged
}

// Target is an instance and the executor that it is to be.
type Target struct {
	// Connect is what the plugin said of the instance.
	Connect fleeting.ConnectInfo
	// Executor is the executor's id.
	Executor string
	// HostKey is what Remember got before; "" where the host is not known yet.
	HostKey string
	// Remember is told the host's key when it is first seen, before any
	// credential is shown to the host; where it fails, none is. Nil: the key is
	// in the Result alone.
	Remember func(ctx context.Context, key string) error
	// Credential returns a bearer token that is good for this executor alone.
	Credential func(ctx context.Context) (string, error)
	// Registered reports whether the executor is online. Nil: nobody waits for it.
	Registered func(ctx context.Context) (bool, error)
	// Progress is told each step as it begins. Nil: nobody is.
	Progress func(Step)
}

// Result says what a Start found and did.
type Result struct {
	HostKey  string   `json:"host_key"` // as Target.HostKey wants it
	OS       string   `json:"os"`
	Arch     string   `json:"arch"`
	Manager  string   `json:"manager"` // of the service: systemd, launchd, schtasks or process
	Uploaded []string `json:"uploaded,omitempty"`
	Started  bool     `json:"started"` // false: it was running already, as it should be
}

// SSH makes executors of instances over SSH. It is safe for concurrent use.
type SSH struct {
	o Options
}

// NewSSH checks the options. It does not connect.
func NewSSH(o Options) (*SSH, error) {
	if o.Binaries == nil {
		return nil, errors.New("bootstrapping needs the binaries of the worker")
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

// Start makes the instance an executor, or sees that it is one, and replaces its
// credential by a new one. Errors are of the type *Error where a step failed.
func (s *SSH) Start(ctx context.Context, t Target) (Result, error) {
	var r Result
	if t.Credential == nil {
		return r, errors.New("bootstrapping needs a credential of the instance")
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
	s.o.Logger.InfoContext(ctx, "the instance is an executor", "instance_id", t.Connect.ID, "executor", t.Executor, "host", h.conn.host,
		"os", r.OS, "arch", r.Arch, "manager", r.Manager, "uploaded", r.Uploaded, "started", r.Started)
	return r, nil
}

// Stop ends the service of the executor and removes its credential from the
// instance. An instance that is none is left as it is.
func (s *SSH) Stop(ctx context.Context, t Target) error {
	h, err := s.open(ctx, t, new(Result))
	if err != nil {
		return err
	}
	defer h.close()
	t.begin(StepStop)
	_, err = h.run(ctx, StepStop, h.system.stop(h.place), nil)
	return err
}

// open connects and finds out what the host is.
func (s *SSH) open(ctx context.Context, t Target, r *Result) (*host, error) {
	if !names.MatchString(t.Executor) {
		return nil, fmt.Errorf("bootstrapping %s: %q is no id of an executor", t.Connect.ID, t.Executor)
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
	r.OS, r.Arch, r.Manager = h.os, h.arch, h.place.manager
	return h, nil
}

func (t Target) begin(step Step) {
	if t.Progress != nil {
		t.Progress(step)
	}
}
