package fleeting

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/drover-run/drover/fleeting/wire"
	"github.com/drover-run/drover/internal/durable"
)

// The handshake of fleeting plugins.
const (
	cookieKey   = "FLEETING_INSTANCE_GROUP_PLUGIN"
	cookieValue = "4c6410b1-cb78-4962-8c76-ab936d0ea908"
	appProtocol = 0
	pluginKey   = "instancegroup"
)

// quitTimeout is how long a plugin may take to exit on its own.
const quitTimeout = 3 * time.Second

// adapter provides the gRPC client to the go-plugin library.
type adapter struct {
	plugin.NetRPCUnsupportedPlugin
}

func (adapter) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("the host serves no plugin")
}

func (adapter) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return wire.NewInstanceGroupClient(conn), nil
}

// process is a running plugin.
type process struct {
	client *plugin.Client
	conn   *plugin.GRPCClient
	api    wire.InstanceGroupClient
	record record
	ended  atomic.Bool
}

// record is the data that the next host needs to take a plugin over.
type record struct {
	PID      int    `json:"pid"` // of the guard
	Addr     string `json:"addr"`
	Binary   string `json:"binary"`   // digest
	Settings string `json:"settings"` // digest of the settings of Init
	Ready    bool   `json:"ready"`    // initialised, and listed once
	Info     Info   `json:"info"`
}

func clientConfig(l *logs) *plugin.ClientConfig {
	return &plugin.ClientConfig{
		HandshakeConfig:  plugin.HandshakeConfig{ProtocolVersion: appProtocol, MagicCookieKey: cookieKey, MagicCookieValue: cookieValue},
		VersionedPlugins: map[int]plugin.PluginSet{appProtocol: {pluginKey: adapter{}}},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Logger:           l.library(),
		Stderr:           l, // the guard's
		SkipHostEnv:      true,
	}
}

// start launches the plugin under a guard and performs the handshake.
func start(o Options, l *logs) (*process, error) {
	// Its own directory, because socket paths are limited in length.
	sockets, err := os.MkdirTemp("", socketDirPrefix+groupKey(o.Dir)+"-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the socket: %w", err)
	}
	l.forget()
	argv := append(slices.Clone(o.Guard), o.Dir, o.Grace.String(), o.Plugin)
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:noctx // it outlives every call, and this process
	cmd.Env = append(slices.Clone(o.env), socketVariable+"="+sockets)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C ends only the host
	config := clientConfig(l)
	config.Cmd, config.StartTimeout = cmd, o.Timeouts.Launch
	p, err := connect(plugin.NewClient(config))
	if err != nil {
		_ = os.RemoveAll(sockets)
		return nil, launchError(err, o, l.tail())
	}
	reattach := p.client.ReattachConfig()
	p.record.PID, p.record.Addr = reattach.Pid, reattach.Addr.String()
	return p, nil
}

// attach connects to a plugin that another host launched.
func attach(r record, l *logs) (*process, error) {
	config := clientConfig(l)
	config.Plugins, config.VersionedPlugins = config.VersionedPlugins[appProtocol], nil
	config.Reattach = &plugin.ReattachConfig{
		Protocol: plugin.ProtocolGRPC, ProtocolVersion: appProtocol, Pid: r.PID, Addr: &net.UnixAddr{Net: "unix", Name: r.Addr},
	}
	p, err := connect(plugin.NewClient(config))
	if err != nil {
		return nil, fmt.Errorf("reattach to the plugin: %w", err)
	}
	p.record = r
	return p, nil
}

func connect(client *plugin.Client) (*process, error) {
	protocol, err := client.Client()
	if err != nil {
		client.Kill()
		return nil, fmt.Errorf("connect: %w", err)
	}
	api, err := protocol.Dispense(pluginKey)
	if err != nil {
		client.Kill()
		return nil, fmt.Errorf("connect: %w", err)
	}
	group, isGroup := api.(wire.InstanceGroupClient)
	conn, isGRPC := protocol.(*plugin.GRPCClient)
	if !isGroup || !isGRPC {
		client.Kill()
		return nil, errors.New("not a gRPC plugin")
	}
	return &process{client: client, api: group, conn: conn}, nil
}

// answers reports whether the plugin's gRPC server is alive. For a plugin
// without the health service, an Unimplemented response counts as alive.
func (p *process) answers(patience time.Duration) bool {
	answer := make(chan error, 1)
	go func() { answer <- p.conn.Ping() }()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-answer:
		return err == nil || strings.Contains(err.Error(), "Unimplemented")
	case <-timer.C:
		return false
	}
}

func (p *process) exited() bool { return p.ended.Load() || p.client.Exited() }

// detach forgets the plugin without ending it.
func (p *process) detach() { _ = p.conn.Conn.Close() }

// kill ends the plugin immediately.
func (p *process) kill(ctx context.Context, dir string) error {
	p.ended.Store(true)
	err := evict(ctx, dir)
	p.record.removeSockets()
	// Do not wait: for a process that is not its child and that nothing reaps,
	// the library never detects the exit.
	go p.client.Kill()
	return err
}

// quit requests the plugin to exit, and kills it if it does not.
func (p *process) quit(ctx context.Context, dir string) error {
	p.ended.Store(true)
	go p.client.Kill()
	ctx, cancel := context.WithTimeout(ctx, quitTimeout)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		pid, err := runningGuard(dir)
		if err != nil {
			return err
		}
		if pid == 0 { // it ended, or the library killed it
			p.record.removeSockets()
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			err := evict(context.WithoutCancel(ctx), dir)
			p.record.removeSockets()
			return err
		}
	}
}

// removeSockets removes the directory of the plugin's socket. The guard does
// that when its plugin ends, unless the guard itself is killed.
func (r record) removeSockets() {
	if dir := filepath.Dir(r.Addr); strings.HasPrefix(filepath.Base(dir), socketDirPrefix) {
		_ = os.RemoveAll(dir)
	}
}

// groupKey distinguishes the socket directories of the groups that share a directory for
// temporary files.
func groupKey(dir string) string {
	if path, err := filepath.Abs(dir); err == nil {
		dir = path
	}
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:5])
}

// removeStaleSockets removes the socket directories that earlier hosts of the group left
// when they were killed. No plugin of the group may run.
func removeStaleSockets(dir string) {
	stale, _ := filepath.Glob(filepath.Join(os.TempDir(), socketDirPrefix+groupKey(dir)+"-*"))
	for _, sockets := range stale {
		_ = os.RemoveAll(sockets)
	}
}

// launchError describes why a plugin could not be launched, with the last lines of
// its output.
func launchError(err error, o Options, tail string) error {
	text := err.Error()
	switch {
	case strings.Contains(text, "timeout while waiting for plugin to start"):
		text = fmt.Sprintf("it printed no handshake within %s", o.Timeouts.Launch)
	case strings.Contains(text, "exited before we could connect"), strings.Contains(text, "Failed to read any lines"):
		text = "it ended without a handshake: it is no fleeting plugin, or cannot run here"
	case strings.Contains(text, "Unrecognized remote plugin message"):
		_, line, _ := strings.Cut(text, "Unrecognized remote plugin message: ")
		line, _, _ = strings.Cut(line, "\n")
		text = fmt.Sprintf("it printed no handshake but %q: it is no fleeting plugin", line)
	case strings.Contains(text, "ncompatible API version"):
		text = "it speaks another protocol version than 0: " + text
	case strings.Contains(text, "unsupported plugin protocol"):
		text = "it does not speak gRPC: " + text
	}
	if tail = strings.TrimSpace(tail); tail != "" {
		text += "; the last lines of its output: " + tail
	}
	return fmt.Errorf("%w: launch %s: %s", ErrUnavailable, o.Plugin, text)
}

// runningGuard returns the pid of the guard of a group's directory, or 0.
func runningGuard(dir string) (int, error) {
	path := filepath.Join(dir, guardLockFile)
	lock := flock.New(path)
	defer func() { _ = lock.Close() }()
	free, err := lock.TryLock()
	if err != nil {
		return 0, fmt.Errorf("check %s: %w", path, err)
	}
	if free {
		return 0, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("check %s: %w", path, err)
	}
	// A guard that has just started has not written its pid yet.
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return -1, nil
	}
	return pid, nil
}

// evict ends the plugin that runs in a group's directory, if any. The held lock
// proves that the pid belongs to the guard.
func evict(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("it did not exit in time"))
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		pid, err := runningGuard(dir)
		if err != nil || pid == 0 {
			return err
		}
		if pid > 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("end the group's earlier plugin (pid %d): %w", pid, context.Cause(ctx))
		}
	}
}

func readRecord(dir string) (record, error) {
	var r record
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return record{}, fmt.Errorf("read the record of the plugin: %w", err)
	}
	return r, nil
}

func writeRecord(dir string, r record) error {
	text, err := json.Marshal(r)
	if err == nil {
		err = durable.WriteFile(filepath.Join(dir, stateFile), text)
	}
	if err != nil {
		return fmt.Errorf("write the record of the plugin: %w", err)
	}
	return nil
}
