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

// The systems with a supported service manager, in Go's terms.
const (
	linux   = "linux"
	darwin  = "darwin"
	windows = "windows"
)

// host is a connected host.
type host struct {
	o      Options
	conn   *connection
	system system
	os     string
	arch   string
	paths  hostPaths

	stamp string // digest of everything that the service was started with
}

// system builds the command lines for a kind of host. All of them are
// idempotent.
type system interface {
	// line builds the command line that runs a script.
	line(script string, sudo bool) string
	// probe prints key=value lines: os, arch, home, root, systemd.
	probe() string
	// join joins the elements of a path.
	join(elements ...string) string
	// digest prints the SHA-256 of a file, or nothing if the file does not
	// exist.
	digest(path string) string
	// put writes stdin to a file. It writes to a temporary name first, and
	// renames the file only if its digest matches.
	put(f remoteFile) string
	// start starts the service, unless it runs and was started with the same
	// stamp. It prints startedOutput if it started the service.
	start(p hostPaths, stamp string) string
	// stop stops the service and removes the secrets.
	stop(p hostPaths) string
	// logs prints the end of the service's log.
	logs(p hostPaths) string
	// files returns the files for the service manager.
	files(p hostPaths) []remoteFile
}

// remoteFile is a file on a host.
type remoteFile struct {
	path    string
	dir     string
	temp    string // its temporary name, in the same directory
	digest  string
	mode    string // the argument of chmod
	content []byte
}

// hostPaths holds the paths of an executor on its host.
type hostPaths struct {
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

// probe determines the kind of host, and the paths.
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
			return h.applyFacts(t, facts)
		}
		var fault *Error
		if err == nil {
			err = fmt.Errorf("unexpected output %q", tailOf(out))
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

// applyFacts checks the output of the probe.
func (h *host) applyFacts(t Target, facts map[string]string) error {
	h.os, h.arch = systemOf(facts["os"]), archOf(facts["arch"])
	for _, c := range []struct{ what, want, got string }{{"os", t.Connect.OS, h.os}, {"arch", t.Connect.Arch, h.arch}} {
		if c.want != "" && !strings.EqualFold(c.want, c.got) {
			return h.fault(StepProbe, ReasonUnsupported, fmt.Errorf("its %s is %s, but the plugin reports %s", c.what, c.got, c.want))
		}
	}
	p := hostPaths{executor: t.Executor, root: facts["root"] == "true", uid: facts["uid"], home: facts["home"], base: h.o.Dir}
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
		return h.fault(StepProbe, ReasonUnsupported, fmt.Errorf("the base directory %q is not a plain absolute path", p.base))
	}
	p.dir = h.system.join(p.base, "executors", p.executor)
	p.config, p.token = h.system.join(p.dir, "config.yaml"), h.system.join(p.dir, "token")
	p.ca, p.state = h.system.join(p.dir, "relay-ca.pem"), h.system.join(p.dir, "state")
	h.paths = p
	return nil
}

// plainPath reports whether a path needs no quoting in unit files, property
// lists and command lines of tasks.
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
	default: // uname prints Go's name, except for upper case
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

// upload uploads the files of the worker that the host lacks.
func (h *host) upload(ctx context.Context, t Target, r *Result) error {
	t.begin(StepUpload)
	worker, err := h.o.Binaries.find(h.os, h.arch)
	if errors.Is(err, errNoBinary) {
		return h.fault(StepUpload, ReasonUnsupported, err)
	} else if err != nil {
		return h.fault(StepUpload, ReasonLocal, err)
	}
	// Both files share a directory, because drover looks for the shim in its
	// own directory. Each build has its own directory, so that no running
	// program is replaced.
	both := sha256.New()
	for _, b := range worker {
		both.Write([]byte(b.digest))
	}
	h.stamp = hex.EncodeToString(both.Sum(nil))
	h.paths.binaries = h.system.join(h.paths.base, "bin", h.stamp[:16])
	h.paths.drover = h.system.join(h.paths.binaries, worker[0].name)
	for _, b := range worker {
		f := remoteFile{path: h.system.join(h.paths.binaries, b.name), dir: h.paths.binaries, digest: b.digest, mode: "0755"}
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

// configure writes the executor's files. Each call creates a new credential.
func (h *host) configure(ctx context.Context, t Target, _ *Result) error {
	t.begin(StepConfigure)
	token, err := t.Credential(ctx)
	if err != nil {
		return h.fault(StepConfigure, ReasonLocal, fmt.Errorf("create the credential: %w", err))
	}
	config, err := h.o.Executor.file(t.Executor, paths{state: h.paths.state, token: h.paths.token, ca: h.paths.ca})
	if err != nil {
		return h.fault(StepConfigure, ReasonLocal, err)
	}
	files := []remoteFile{
		{path: h.paths.token, mode: "0600", content: []byte(token + "\n")},
		{path: h.paths.config, mode: "0600", content: config},
	}
	if len(h.o.Executor.Relay.CA) > 0 {
		files = append(files, remoteFile{path: h.paths.ca, mode: "0644", content: h.o.Executor.Relay.CA})
	}
	all := sha256.New()
	all.Write([]byte(h.stamp))
	for _, f := range append(files, h.system.files(h.paths)...) {
		sum := sha256.Sum256(f.content)
		f.digest = hex.EncodeToString(sum[:])
		if f.dir == "" {
			f.dir = h.paths.dir
		}
		if _, err := h.send(ctx, StepConfigure, f, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(f.content)), nil }); err != nil {
			return err
		}
		if f.path != h.paths.token { // the executor reloads it itself
			all.Write(sum[:])
		}
	}
	h.stamp = hex.EncodeToString(all.Sum(nil))
	return nil
}

// send uploads a file to the host, unless the host has it.
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
		return false, h.fault(step, ReasonLocal, fmt.Errorf("open the file to upload: %w", err))
	}
	defer func() { _ = content.Close() }() // it was only read
	// An interrupted upload may still be running. The next one removes its
	// temporary file, so that the old one cannot replace the new file.
	f.temp = ".new-" + h.paths.executor + tempMark + rand.Text()
	_, err = h.run(ctx, step, h.system.put(f), content)
	return err == nil, err
}

// ready runs the ready command.
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
	out, err := h.run(ctx, StepStart, h.system.start(h.paths, h.stamp), nil)
	r.Started = strings.Contains(out, startedOutput)
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
		if out, err := h.run(ctx, StepRegister, h.system.logs(h.paths), nil); err == nil {
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
