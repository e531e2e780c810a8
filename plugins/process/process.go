//go:build linux

package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/hashicorp/go-hclog"
	"gitlab.com/gitlab-org/fleeting/fleeting/plugin"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"
	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/plugins/internal/instance"
)

// InstanceGroup is a group of local processes. Its exported fields are the
// plugin's configuration.
type InstanceGroup struct {
	Name           string            `json:"name"`
	StateDir       string            `json:"state_dir"`
	Command        []string          `json:"command"`
	Env            map[string]string `json:"env"`
	WorkingDir     string            `json:"working_dir"` // "": the instance's own directory
	MaxSize        int               `json:"max_size"`    // 0: no limit
	StopTimeout    instance.Duration `json:"stop_timeout"`
	KeepEnded      instance.Duration `json:"keep_ended"`
	WaitForAddress bool              `json:"wait_for_address"`

	Version plugin.VersionInfo `json:"-"`

	log      hclog.Logger
	settings provider.Settings
	dir      string
	self     string
}

var _ provider.InstanceGroup = (*InstanceGroup)(nil)

const (
	defaultStopTimeout = 30 * time.Second
	defaultKeepEnded   = 10 * time.Minute
	// How long Decrease waits for the pid of a supervisor that is starting.
	pidTimeout = 2 * time.Second
	// Directories that are being removed have this prefix.
	forgottenPrefix = ".forgotten-"
)

// Init implements provider.InstanceGroup.
func (g *InstanceGroup) Init(_ context.Context, log hclog.Logger, settings provider.Settings) (provider.ProviderInfo, error) {
	var none provider.ProviderInfo
	if err := instance.CheckGroup(g.Name); err != nil {
		return none, err
	}
	if len(g.Command) == 0 {
		return none, errors.New("command: required")
	}
	if !filepath.IsAbs(g.StateDir) {
		return none, fmt.Errorf("state_dir: %q must be an absolute path", g.StateDir)
	}
	for _, text := range g.Command { // report invalid texts at once
		if _, err := (instance.Vars{}).Fill(text); err != nil {
			return none, fmt.Errorf("command: %w", err)
		}
	}
	g.dir, g.log, g.settings = filepath.Join(g.StateDir, g.Name), log, settings
	if err := os.MkdirAll(g.dir, 0o700); err != nil {
		return none, fmt.Errorf("make the group's directory: %w", err)
	}
	var err error
	if g.self, err = os.Executable(); err != nil {
		return none, fmt.Errorf("find this executable: %w", err)
	}
	size := g.MaxSize
	if size <= 0 {
		size = math.MaxInt
	}
	return provider.ProviderInfo{ID: "process/" + g.Name, MaxSize: size, Version: g.Version.String(), BuildInfo: g.Version.BuildInfo()}, nil
}

// Update implements provider.InstanceGroup.
func (g *InstanceGroup) Update(_ context.Context, fn func(string, provider.State)) error {
	if err := g.removeForgotten(); err != nil {
		return err
	}
	ids, err := g.ids()
	if err != nil {
		return err
	}
	for _, id := range ids {
		dir := filepath.Join(g.dir, id)
		s, err := inspect(dir, g.WaitForAddress)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed meanwhile, or is being created
		}
		if err != nil {
			return err
		}
		if s.state == provider.StateDeleted && time.Since(s.ended.At) > g.KeepEnded.Or(defaultKeepEnded) {
			g.log.Debug("removing the directory of an instance", "id", id, "why", s.ended.Why)
			if err := g.forget(id); err != nil {
				return err
			}
			continue
		}
		fn(id, s.state)
	}
	return nil
}

// Increase implements provider.InstanceGroup.
func (g *InstanceGroup) Increase(ctx context.Context, n int) (int, error) {
	lock := flock.New(filepath.Join(g.dir, lockFile))
	if err := lock.Lock(); err != nil {
		return 0, fmt.Errorf("lock the group: %w", err)
	}
	defer func() { _ = lock.Close() }()
	free, err := g.free()
	if err != nil {
		return 0, err
	}
	for made := range n {
		if made >= free {
			return made, fmt.Errorf("the group already has %d instances", g.MaxSize)
		}
		if err := ctx.Err(); err != nil {
			return made, fmt.Errorf("make instances: %w", err)
		}
		if err := g.create(); err != nil {
			return made, err
		}
	}
	return n, nil
}

// Decrease implements provider.InstanceGroup. Instances that do not exist count
// as ended.
func (g *InstanceGroup) Decrease(ctx context.Context, ids []string) ([]string, error) {
	var done []string
	var faults error
	for _, id := range ids {
		if err := g.stop(ctx, id); err != nil && !errors.Is(err, fs.ErrNotExist) {
			faults = errors.Join(faults, fmt.Errorf("stop %s: %w", id, err))
			continue
		}
		done = append(done, id)
	}
	return done, faults
}

// ConnectInfo implements provider.InstanceGroup.
func (g *InstanceGroup) ConnectInfo(_ context.Context, id string) (provider.ConnectInfo, error) {
	info := provider.ConnectInfo{ConnectorConfig: g.settings.ConnectorConfig, ID: id}
	dir, err := g.running(id)
	if err != nil {
		return info, err
	}
	address, err := os.ReadFile(filepath.Join(dir, addressFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return info, fmt.Errorf("read the address: %w", err)
	}
	info.InternalAddr = strings.TrimSpace(string(address))
	if info.InternalAddr == "" {
		info.InternalAddr = "127.0.0.1"
	}
	info.ExternalAddr = info.InternalAddr
	if info.Username == "" {
		if u, err := user.Current(); err == nil {
			info.Username = u.Username
		}
	}
	return info, nil
}

// Heartbeat implements provider.InstanceGroup.
func (g *InstanceGroup) Heartbeat(_ context.Context, id string) error {
	_, err := g.running(id)
	return err
}

// Suspend implements provider.InstanceGroup.
func (g *InstanceGroup) Suspend(context.Context, []string) ([]string, error) {
	return nil, provider.ErrSuspendResumeNotSupported
}

// Resume implements provider.InstanceGroup.
func (g *InstanceGroup) Resume(context.Context, []string) ([]string, error) {
	return nil, provider.ErrSuspendResumeNotSupported
}

// Shutdown implements provider.InstanceGroup. Instances stay.
func (g *InstanceGroup) Shutdown(context.Context) error { return nil }

// running returns the directory of a running instance.
func (g *InstanceGroup) running(id string) (string, error) {
	dir, err := g.dirOf(id)
	if err != nil {
		return "", err
	}
	s, err := inspect(dir, g.WaitForAddress)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: no instance %s", provider.ErrInstanceUnhealthy, id)
	}
	if err != nil {
		return "", err
	}
	if s.state != provider.StateRunning {
		return "", fmt.Errorf("%w: %s is %s %s", provider.ErrInstanceUnhealthy, id, s.state, s.ended.Why)
	}
	return dir, nil
}

// ids lists the recorded instances.
func (g *InstanceGroup) ids() ([]string, error) {
	entries, err := os.ReadDir(g.dir)
	if err != nil {
		return nil, fmt.Errorf("list instances: %w", err)
	}
	var ids []string
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), g.Name+"-") {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

// forget removes the directory of an ended instance. The directory leaves its
// place at once: a supervisor that starts late must not find a directory without
// the record of the end in it, and run the command.
func (g *InstanceGroup) forget(id string) error {
	err := os.Rename(filepath.Join(g.dir, id), filepath.Join(g.dir, forgottenPrefix+id))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove an instance's directory: %w", err)
	}
	return g.removeForgotten()
}

// removeForgotten removes what forget moved, also what a killed plugin left.
func (g *InstanceGroup) removeForgotten() error {
	entries, err := os.ReadDir(g.dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), forgottenPrefix) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(g.dir, e.Name())))
		}
	}
	if err != nil {
		return fmt.Errorf("remove an instance's directory: %w", err)
	}
	return nil
}

func (g *InstanceGroup) dirOf(id string) (string, error) {
	if !strings.HasPrefix(id, g.Name+"-") || !filepath.IsLocal(id) || filepath.Base(id) != id {
		return "", fmt.Errorf("no instance %q: %w", id, fs.ErrNotExist)
	}
	return filepath.Join(g.dir, id), nil
}

// free returns how many more instances are allowed.
func (g *InstanceGroup) free() (int, error) {
	if g.MaxSize <= 0 {
		return math.MaxInt, nil
	}
	free := g.MaxSize
	err := g.Update(context.Background(), func(_ string, s provider.State) {
		if s != provider.StateDeleted {
			free--
		}
	})
	return max(free, 0), err
}

// create records an instance and starts its supervisor.
func (g *InstanceGroup) create() error {
	vars := instance.Vars{ID: instance.NewID(g.Name), Group: g.Name}
	vars.Dir = filepath.Join(g.dir, vars.ID)
	argv, err := vars.FillAll(g.Command)
	if err != nil {
		return fmt.Errorf("command: %w", err)
	}
	env, err := vars.Environment(inherited(), g.Env)
	if err != nil {
		return err
	}
	workingDir, err := vars.Fill(g.WorkingDir)
	if err != nil {
		return fmt.Errorf("working_dir: %w", err)
	}
	if err := g.writeRecord(vars); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(vars.Dir, logFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make the log: %w", err)
	}
	defer func() { _ = log.Close() }()
	args := append([]string{SupervisorCommand, vars.Dir, g.StopTimeout.Or(defaultStopTimeout).String()}, argv...)
	cmd := exec.Command(g.self, args...) //nolint:noctx // it outlives every call, and this process
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = env, workingDir, log, log
	if cmd.Dir == "" {
		cmd.Dir = vars.Dir
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("start a supervisor: %w", err), os.RemoveAll(vars.Dir))
	}
	go func() { _ = cmd.Wait() }() // reaps the child
	g.log.Info("started an instance", "id", vars.ID, "supervisor", cmd.Process.Pid)
	return nil
}

// writeRecord creates the instance's directory atomically, with its record in it.
func (g *InstanceGroup) writeRecord(vars instance.Vars) error {
	fresh, err := os.MkdirTemp(g.dir, ".new-")
	if err != nil {
		return fmt.Errorf("make an instance's directory: %w", err)
	}
	err = write(fresh, instanceFile, created{ID: vars.ID, At: time.Now()})
	if err == nil {
		err = os.Rename(fresh, vars.Dir)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("make an instance's directory: %w", err), os.RemoveAll(fresh))
	}
	return nil
}

// stop records that an instance must end, and signals its supervisor.
func (g *InstanceGroup) stop(ctx context.Context, id string) error {
	dir, err := g.dirOf(id)
	if err != nil {
		return err
	}
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("find the instance: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, stopFile), nil, 0o600); err != nil {
		return fmt.Errorf("write the stop file: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, pidTimeout, errors.New("its supervisor has not written its pid"))
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := inspect(dir, g.WaitForAddress)
		if err != nil || s.state == provider.StateDeleted {
			return err
		}
		signaled, err := signalStop(dir)
		if signaled || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// signalStop sends the supervisor SIGTERM. If the lock is held after this process has
// opened the pid, the pid still belongs to the supervisor, and not to a later
// process.
func signalStop(dir string) (bool, error) {
	pid, err := supervisorPID(dir)
	if err != nil || pid == 0 {
		return false, err
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("find the supervisor: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if supervised, err := isSupervised(dir); err != nil || !supervised {
		return false, err
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return false, fmt.Errorf("stop the supervisor: %w", err)
	}
	return true, nil
}

// inherited returns the environment of this process without the variables of
// the plugin protocol.
func inherited() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "FLEETING_") || strings.HasPrefix(v, "PLUGIN_")
	})
}
