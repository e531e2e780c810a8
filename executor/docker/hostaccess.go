package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/moby/sys/mountinfo"

	"github.com/drover-run/drover/run"
)

// localDaemon begins the address of a daemon on this host.
const localDaemon = "unix://"

// checkHostAccess returns an error if the options cannot give tasks paths of the host.
func checkHostAccess(o *Options) error {
	switch {
	case !o.HostAccess:
		return nil
	case !strings.HasPrefix(o.Client.DaemonHost(), localDaemon):
		return run.Errorf(run.CodeInvalid, "executor.docker.host_access needs a daemon on the executor's own host, with an address such as unix:///run/docker.sock, and it has %s", o.Client.DaemonHost())
	case !filepath.IsAbs(o.StateDir):
		return run.Errorf(run.CodeInvalid, "executor.docker.host_access needs the absolute path of the state dir, and it is %q", o.StateDir)
	}
	return nil
}

// planHostAccess checks what a task asks for of its host, as far as that does not change, and
// adds its devices to the plan. The daemon finds out whether they exist.
func planHostAccess(o *Options, p *plan) error {
	def := &p.definition
	if !o.HostAccess && (run.HostPaths(def.Volumes) || len(def.Devices) > 0) {
		return run.Errorf(run.CodeInvalid, "paths and devices of the host are not allowed on this executor (executor.docker.host_access is off): set it on all executors of the pool, or let requires choose executors by a label that only those with it have")
	}
	for _, v := range def.Volumes {
		if v.HostPath == "" {
			continue
		}
		if err := run.CheckHostPath(v.HostPath); err != nil {
			return run.Errorf(run.CodeInvalid, "host_path: %w", err)
		}
	}
	for _, device := range def.Devices {
		if err := run.CheckDevice(device); err != nil {
			return run.Errorf(run.CodeInvalid, "devices: %w", err)
		}
		p.resources.Devices = append(p.resources.Devices, container.DeviceMapping{PathOnHost: device, PathInContainer: device, CgroupPermissions: "rwm"})
	}
	return nil
}

// hostMount returns the mount of a host path. As a mount of this form, and not as a bind, the
// daemon refuses one that does not exist in place of creating it as root. Daemons and kernels
// of earlier versions cannot make the file systems read-only that are mounted below a path: the
// task does not see these then.
func hostMount(v run.Volume) mount.Mount {
	m := mount.Mount{Type: mount.TypeBind, Source: v.HostPath, Target: path.Clean(v.Path), ReadOnly: v.ReadOnly}
	if v.ReadOnly {
		m.BindOptions = &mount.BindOptions{NonRecursive: true}
	}
	return m
}

// checkHostPaths looks at the host paths of a task, directly before the daemon mounts them. The
// error has CodeInvalid if another try does not help.
func (s *starting) checkHostPaths(ctx context.Context) error {
	if !run.HostPaths(s.task.Definition.Volumes) {
		return nil
	}
	if err := s.checkCheckoutDirs(); err != nil {
		return err
	}
	dataRoot, err := s.driver.data.of(ctx, s.driver.client)
	if err != nil {
		return err
	}
	for _, v := range s.task.Definition.Volumes {
		if v.HostPath == "" {
			continue
		}
		if err := checkHostPath(&s.driver.options, dataRoot, v.HostPath); err != nil {
			code := run.CodeInvalid
			if run.CodeOf(err) == run.CodeUnavailable {
				code = run.CodeUnavailable
			}
			return run.Errorf(code, "host path %s: %w", v.HostPath, err)
		}
	}
	return nil
}

// checkCheckoutDirs refuses checkouts that would remove what is at a path of the host.
func (s *starting) checkCheckoutDirs() error {
	def := &s.task.Definition
	for _, step := range def.Steps {
		if step.Checkout == nil {
			continue
		}
		dir := run.CheckoutDir(cmp.Or(def.WorkingDir, s.image.workingDir), step.WorkingDir, step.Checkout.Path)
		if target := run.HostPathOf(def.Volumes, dir); target != "" {
			return run.Errorf(run.CodeInvalid, "the checkout into %s would remove what is at a path of the host, which is mounted at %s: check out elsewhere, and copy", dir, target)
		}
	}
	return nil
}

// loops reports whether symbolic links of a path lead around in a circle, of which EvalSymlinks
// gives no error that can be told from others.
func loops(p string) bool {
	_, err := os.Stat(p)
	return errors.Is(err, syscall.ELOOP)
}

// checkHostPath returns an error if a task may not mount a path. dataRoot is the directory of
// the daemon's data.
func checkHostPath(o *Options, dataRoot, p string) error {
	resolved, err := filepath.EvalSymlinks(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("it does not exist on the host, as far as the executor sees")
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the user of the executor may not search the directories above it: %w", err)
	case errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENAMETOOLONG) || loops(p):
		return err
	case err != nil: // such as of a file server that is away
		return run.Errorf(run.CodeUnavailable, "look at it: %w", err)
	case resolved != p: // the pool has allowed p, and not where a link leads
		return errors.New("it leads through a symbolic link to " + resolved + ": let the pool allow that path, and name it in the run file")
	}
	if err := checkOwners(p); err != nil {
		return err
	}
	mounts, err := mountinfo.GetMounts(nil)
	if err != nil {
		return run.Errorf(run.CodeUnavailable, "read which file systems are mounted: %w", err)
	}
	for what, dir := range map[string]string{"executor": o.StateDir, "docker daemon": dataRoot} {
		dir = resolve(dir)
		if has, err := overlap(mounts, p, dir); err != nil {
			return run.Errorf(run.CodeUnavailable, "find the file system: %w", err)
		} else if has {
			return fmt.Errorf("it has to do with the data of the %s (%s), which no task may have", what, dir)
		}
	}
	socket := resolve(strings.TrimPrefix(o.Client.DaemonHost(), localDaemon))
	switch {
	case p == socket && !run.NamedHostPath(p): // a pattern may have allowed it by chance
		return errors.New("it is the socket of the docker daemon, which a task may have only below /run, where pools name each path")
	case p != socket && within(socket, p):
		return errors.New("the socket of the docker daemon is in it: a pool that is to have that allows " + socket)
	}
	return nil
}

// checkOwners returns an error if a user of the host could replace a part of a path by a link
// while the daemon mounts it. That user could let a task have any path. The path has no links.
func checkOwners(p string) error {
	info, err := os.Lstat(p)
	for dir := path.Dir(p); err == nil; dir = path.Dir(dir) {
		var above fs.FileInfo
		if above, err = os.Lstat(dir); err != nil {
			break
		}
		const others = 0o022
		switch {
		case !trusted(above):
			return fmt.Errorf("its directory %s belongs to a user of the host, who could replace what is in it: let root own the directories above the path", dir)
		case above.Mode().Perm()&others != 0 && (above.Mode()&fs.ModeSticky == 0 || !trusted(info)):
			return fmt.Errorf("other users of the host may write to its directory %s, and could replace what is in it: let only root or the user of the executor write to the directories above the path (chmod go-w)", dir)
		case dir == "/":
			return nil
		}
		info = above
	}
	return err
}

// trusted reports whether a file belongs to root or to the user of the executor.
func trusted(info fs.FileInfo) bool {
	owner, known := ownerOf(info)
	return known && (owner == 0 || owner == os.Geteuid())
}

// resolve follows the links of a path as far as possible.
func resolve(p string) string {
	if resolved, err := filepath.EvalSymlinks(p); err == nil {
		return resolved
	}
	return filepath.Clean(p)
}

// within reports whether a path is dir or below it.
func within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}
