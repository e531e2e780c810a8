package bootstrap

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// The systems that there is a way to start a service on, as Go names them.
const (
	linux   = "linux"
	darwin  = "darwin"
	windows = "windows"
)

// host is a host that is connected to.
type host struct {
	o      Options
	conn   *connection
	system system
	os     string
	arch   string
	place  place

	stamp string // of everything that the service was started with
}

// system knows the command lines of a kind of host. All of them can be repeated.
type system interface {
	// line makes a command line of a script.
	line(script string, sudo bool) string
	// probe tells key=value lines: os, arch, home, root, systemd.
	probe() string
	// join makes a path.
	join(elements ...string) string
	// digest tells the SHA-256 of a file, or nothing where it is not there.
	digest(path string) string
	// put makes a file of what comes over stdin: under another name first, and
	// only as what it should be.
	put(f remoteFile) string
	// start starts the service, unless it runs and was started with the same
	// stamp; it says started where it did.
	start(p place, stamp string) string
	// stop ends the service and removes what is secret.
	stop(p place) string
	// logs tells the end of what the service said.
	logs(p place) string
	// files are what the service manager needs.
	files(p place) []remoteFile
}

// remoteFile is a file on a host.
type remoteFile struct {
	path    string
	dir     string
	temp    string // where it is written first, beside it
	digest  string
	mode    string // as chmod takes it
	content []byte
}

// place says where everything of an executor is on its host.
type place struct {
	executor string
	manager  string // systemd, launchd, schtasks or process
	root     bool
	uid      string
	home     string
	base     string
	dir      string // of the executor
	binaries string // the directory of its worker
	drover   string
	config   string
	token    string
	ca       string
	state    string
}

// probe finds out what the host is, and where things go.
func (h *host) probe(ctx context.Context, t Target) error {
	order := []system{unix{}, powershell{}}
	if t.Connect.OS == windows {
		slices.Reverse(order)
	}
	var failures []error
	for _, s := range order {
		out, err := h.conn.run(ctx, StepProbe, s.line(s.probe(), h.o.Sudo), nil)
		facts := readFacts(out)
		if err == nil && facts["os"] != "" {
			h.system = s
			return h.settle(t, facts)
		}
		var fault *Error
		if err == nil {
			err = fmt.Errorf("it said %q", tailOf(out))
		} else if !errors.As(err, &fault) || fault.Reason != ReasonCommand {
			return err
		}
		failures = append(failures, err)
	}
	return h.fault(StepProbe, ReasonUnsupported, fmt.Errorf("the host runs neither a POSIX shell nor PowerShell: %w", errors.Join(failures...)))
}

func readFacts(out string) map[string]string {
	facts := make(map[string]string)
	for line := range strings.Lines(out) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			facts[key] = strings.TrimSpace(value)
		}
	}
	return facts
}

// settle checks what the host said of itself.
func (h *host) settle(t Target, facts map[string]string) error {
	h.os, h.arch = systemOf(facts["os"]), archOf(facts["arch"])
	for _, c := range []struct{ what, want, got string }{{"os", t.Connect.OS, h.os}, {"arch", t.Connect.Arch, h.arch}} {
		if c.want != "" && !strings.EqualFold(c.want, c.got) {
			return h.fault(StepProbe, ReasonUnsupported, fmt.Errorf("its %s is %s, and by the plugin %s", c.what, c.got, c.want))
		}
	}
	p := place{executor: t.Executor, root: facts["root"] == "true", uid: facts["uid"], home: facts["home"], base: h.o.Dir}
	switch {
	case h.os == windows:
		p.manager = "schtasks"
	case h.os == darwin:
		p.manager = "launchd"
	case h.os != linux:
		return h.fault(StepProbe, ReasonUnsupported, fmt.Errorf("executors run on Linux, macOS and Windows, not on %s", facts["os"]))
	case p.root && facts["systemd"] == "true":
		p.manager = "systemd"
	default:
		p.manager = "process"
	}
	switch {
	case p.base != "":
	case h.os == windows:
		p.base = `C:\ProgramData\drover`
	case p.root:
		p.base = "/var/lib/drover"
	default:
		p.base = h.system.join(p.home, ".drover")
	}
	if !plainPath(p.base) {
		return h.fault(StepProbe, ReasonUnsupported, fmt.Errorf("%q is no plain absolute path to keep things below", p.base))
	}
	p.dir = h.system.join(p.base, "executors", p.executor)
	p.config, p.token = h.system.join(p.dir, "config.yaml"), h.system.join(p.dir, "token")
	p.ca, p.state = h.system.join(p.dir, "relay-ca.pem"), h.system.join(p.dir, "state")
	h.place = p
	return nil
}

// plainPath reports whether a path needs no quoting wherever it gets into: unit
// files, lists of properties, command lines of tasks.
func plainPath(path string) bool {
	rest := strings.TrimPrefix(path, "/")
	if len(path) > 3 && path[1:3] == `:\` {
		rest = path[3:]
	} else if rest == path {
		return false
	}
	return strings.Trim(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+@/\\") == "" && rest != ""
}

func systemOf(name string) string {
	switch name := strings.ToLower(name); {
	case strings.HasPrefix(name, "windows"):
		return windows
	default: // what uname says is what Go says, in lower case
		return name
	}
}

func archOf(name string) string {
	switch name := strings.ToLower(name); name {
	case "x86_64", "amd64":
		return "amd64"
	case "aarch64", "arm64":
		return "arm64"
	case "i386", "i486", "i586", "i686", "x86":
		return "386"
	case "armv6l", "armv7l", "armv8l":
		return "arm"
	default:
		return name
	}
}

// upload brings the worker, what of it is not there already.
func (h *host) upload(ctx context.Context, t Target, r *Result) error {
	t.begin(StepUpload)
	worker, err := h.o.Binaries.find(h.os, h.arch)
	if errors.Is(err, errNoWorker) {
		return h.fault(StepUpload, ReasonUnsupported, err)
	} else if err != nil {
		return h.fault(StepUpload, ReasonLocal, err)
	}
	// Both are in one directory, since drover finds the shim beside itself, and
	// one for each build, so that none is replaced that runs.
	both := sha256.New()
	for _, b := range worker {
		both.Write([]byte(b.digest))
	}
	h.stamp = hex.EncodeToString(both.Sum(nil))
	h.place.binaries = h.system.join(h.place.base, "bin", h.stamp[:16])
	h.place.drover = h.system.join(h.place.binaries, worker[0].name)
	for _, b := range worker {
		f := remoteFile{path: h.system.join(h.place.binaries, b.name), dir: h.place.binaries, digest: b.digest, mode: "0755"}
		sent, err := h.send(ctx, StepUpload, f, func() (io.ReadCloser, error) { return os.Open(b.path) })
		if err != nil {
			return err
		}
		if sent {
			r.Uploaded = append(r.Uploaded, b.name)
		}
	}
	return nil
}

// configure writes the executor's files. The credential is a new one each time.
func (h *host) configure(ctx context.Context, t Target, _ *Result) error {
	t.begin(StepConfigure)
	token, err := t.Credential(ctx)
	if err != nil {
		return h.fault(StepConfigure, ReasonLocal, fmt.Errorf("making the credential: %w", err))
	}
	config, err := h.o.Executor.file(t.Executor, paths{state: h.place.state, token: h.place.token, ca: h.place.ca})
	if err != nil {
		return h.fault(StepConfigure, ReasonLocal, err)
	}
	files := []remoteFile{
		{path: h.place.token, mode: "0600", content: []byte(token + "\n")},
		{path: h.place.config, mode: "0600", content: config},
	}
	if len(h.o.Executor.Relay.CA) > 0 {
		files = append(files, remoteFile{path: h.place.ca, mode: "0644", content: h.o.Executor.Relay.CA})
	}
	all := sha256.New()
	all.Write([]byte(h.stamp))
	for _, f := range append(files, h.system.files(h.place)...) {
		sum := sha256.Sum256(f.content)
		f.digest = hex.EncodeToString(sum[:])
		if f.dir == "" {
			f.dir = h.place.dir
		}
		if _, err := h.send(ctx, StepConfigure, f, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(f.content)), nil }); err != nil {
			return err
		}
		if f.path != h.place.token { // the executor looks at it by itself
			all.Write(sum[:])
		}
	}
	h.stamp = hex.EncodeToString(all.Sum(nil))
	return nil
}

// send makes a file on the host, unless it is there.
func (h *host) send(ctx context.Context, step Step, f remoteFile, open func() (io.ReadCloser, error)) (bool, error) {
	there, err := h.run(ctx, step, h.system.digest(f.path), nil)
	if err != nil {
		return false, err
	}
	if strings.EqualFold(strings.TrimSpace(there), f.digest) {
		return false, nil
	}
	content, err := open()
	if err != nil {
		return false, h.fault(step, ReasonLocal, fmt.Errorf("opening what is uploaded: %w", err))
	}
	defer func() { _ = content.Close() }() // it was only read
	// Who comes after one that was cut off removes what that one left, and with
	// it the ground from under one that only seemed to be.
	f.temp = ".new-" + h.place.executor + tempMark + rand.Text()
	_, err = h.run(ctx, step, h.system.put(f), content)
	return err == nil, err
}

// ready runs the command that says when the host is.
func (h *host) ready(ctx context.Context, t Target, _ *Result) error {
	if h.o.Ready == "" {
		return nil
	}
	t.begin(StepReady)
	ctx, cancel := context.WithTimeoutCause(ctx, h.o.ReadyTimeout, fmt.Errorf("the ready command took longer than %s", h.o.ReadyTimeout))
	defer cancel()
	_, err := h.conn.run(ctx, StepReady, h.system.line(h.o.Ready, h.o.Sudo), nil)
	var fault *Error
	if errors.As(err, &fault) && fault.Reason == ReasonCommand && fault.Err == nil {
		fault.Err = errors.New("the ready command failed")
	}
	return err
}

// start starts the service.
func (h *host) start(ctx context.Context, t Target, r *Result) error {
	t.begin(StepStart)
	out, err := h.run(ctx, StepStart, h.system.start(h.place, h.stamp), nil)
	r.Started = strings.Contains(out, saidStarted)
	return err
}

// register waits until the executor is online.
func (h *host) register(ctx context.Context, t Target, _ *Result) error {
	if t.Registered == nil {
		return nil
	}
	t.begin(StepRegister)
	limited, cancel := context.WithTimeoutCause(ctx, h.o.RegisterTimeout, fmt.Errorf("the executor did not register within %s", h.o.RegisterTimeout))
	defer cancel()
	ticker := time.NewTicker(h.o.Interval)
	defer ticker.Stop()
	var last error
	for {
		online, err := t.Registered(limited)
		if online && err == nil {
			return nil
		}
		if err != nil && limited.Err() == nil {
			last = err
		}
		select {
		case <-ticker.C:
			continue
		case <-limited.Done():
		}
		fault := &Error{Step: StepRegister, Instance: t.Connect.ID, Host: h.conn.host, Reason: ReasonTimeout, Err: errors.Join(context.Cause(limited), last)}
		if out, err := h.run(ctx, StepRegister, h.system.logs(h.place), nil); err == nil {
			fault.Output = tailOf(out)
		}
		return fault
	}
}

func (h *host) run(ctx context.Context, step Step, script string, stdin io.Reader) (string, error) {
	return h.conn.run(ctx, step, h.system.line(script, h.o.Sudo), stdin)
}

func (h *host) fault(step Step, reason Reason, err error) error {
	return &Error{Step: step, Instance: h.conn.instance, Host: h.conn.host, Reason: reason, Err: err}
}

func (h *host) close() { h.conn.close() }
