package docker

import (
	"context"
	"os"
	"path"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/drover-run/drover/run"
)

// addVolumes adds the volumes of the definition, and the working directory that the containers
// of the task share. An earlier task can leave a link in a lasting volume, which the runtime
// would follow to any directory of the container, such as the shim's. So nothing is
// mounted below such a volume. checkMounts checks what only the daemon knows.
func (p *plan) addVolumes(o *Options) (err error) {
	def := &p.definition
	shared := ""
	if def.SharesWorkingDir() {
		shared = path.Clean(def.WorkingDir)
	}
	for _, v := range def.Volumes {
		target := path.Clean(v.Path)
		if !path.IsAbs(target) || target == "/" || target == "/.drover" || strings.HasPrefix(target, "/.drover/") {
			return run.Errorf(run.CodeInvalid, "%q can not be the path of a volume", v.Path)
		}
		if slices.Contains(p.targets(), target) || target == shared && v.Name == "" {
			return run.Errorf(run.CodeInvalid, "%q is the path of two volumes", v.Path)
		}
		if err := run.CheckVolumePath(target); err != nil && run.LastingVolumes(def.Volumes) {
			return run.Errorf(run.CodeInvalid, "%w", err)
		}
		if err := run.CheckVolumePlace(target, def.Resources.GPUs > 0); err != nil && v.Lasting() {
			return run.Errorf(run.CodeInvalid, "%w", err)
		}
		switch {
		case v.HostPath != "":
			p.lasting = append(p.lasting, hostMount(v))
		case v.Name != "":
			if def.VolumeScope == "" {
				return run.Errorf(run.CodeInvalid, "the definition of the task does not say whose volume %s is (volume_scope): the gateway gave none", v.Name)
			}
			if target == shared && v.ReadOnly {
				return run.Errorf(run.CodeInvalid, "the volume %s is the working directory that the containers of the task share, and so it cannot be read_only", v.Name)
			}
			p.lasting = append(p.lasting, persistentMount(o, def.VolumeScope, v))
		case v.Tmpfs == nil:
			p.volumes = append(p.volumes, target)
		default:
			if p.tmpfs == nil {
				p.tmpfs = make(map[string]string)
			}
			if p.tmpfs[target], err = tmpfsOptions(v.Tmpfs.Size); err != nil {
				return err
			}
		}
	}
	if shared != "" && !p.isLasting(shared) {
		if err := run.CheckVolumePath(shared); err != nil && len(p.lasting) > 0 {
			return run.Errorf(run.CodeInvalid, "%w", err)
		}
		p.volumes = append(p.volumes, shared)
	}
	if volume, other := nested(p.lastingTargets(), p.targets()); volume != "" {
		return run.Errorf(run.CodeInvalid, "one of %q and %q is below the other: nothing can be mounted below a persistent volume or a path of the host, nor one of these below another mount", volume, other)
	}
	return nil
}

// targets returns the paths of all mounts of the main container that the definition names.
func (p *plan) targets() []string {
	targets := slices.Concat(p.lastingTargets(), p.volumes)
	for target := range p.tmpfs {
		targets = append(targets, target)
	}
	slices.Sort(targets)
	return targets
}

func (p *plan) lastingTargets() []string {
	targets := make([]string, 0, len(p.lasting))
	for _, m := range p.lasting {
		targets = append(targets, m.Target)
	}
	return targets
}

func (p *plan) isLasting(target string) bool {
	return slices.Contains(p.lastingTargets(), target)
}

// nested returns a lasting volume that is below another mount, or has one below it, and
// that mount; "" if there is none. all are the paths of all mounts.
func nested(lasting, all []string) (volume, other string) {
	for _, volume := range lasting {
		for _, other := range all {
			if strings.HasPrefix(other, volume+"/") || strings.HasPrefix(volume, other+"/") {
				return volume, other
			}
		}
	}
	return "", ""
}

// checkMounts refuses a container with lasting volumes, created and not started, in which a
// mount would not be where its path says: one of them below the other, or behind a link of the
// image. The daemon adds the volumes of the image to those of the definition, and the helper
// containers and services have images of their own.
func (s *starting) checkMounts(ctx context.Context, id, image string) error {
	if len(s.plan.lasting) == 0 {
		return nil
	}
	c, err := s.driver.client.ContainerInspect(ctx, id)
	if err != nil {
		return daemonError(err, "inspect a container of %s", s.key())
	}
	all, found := mountsOf(&c), make(map[string]volumeName)
	var lasting []string
	for _, m := range s.plan.lasting {
		// A service has only the one that it shares, and perhaps a VOLUME at the path of another.
		if slices.ContainsFunc(c.Mounts, func(c container.MountPoint) bool {
			return c.Destination == m.Target && c.Type == m.Type && (m.Type == mount.TypeBind || c.Name == m.Source) // a daemon may rewrite the source of a bind
		}) {
			lasting = append(lasting, m.Target)
			found[m.Target] = nameOf(&s.driver.options, &m)
		}
	}
	if len(lasting) == 0 {
		return nil
	}
	if volume, other := nested(lasting, all); volume != "" {
		return run.Errorf(run.CodeInvalid,
			"image %s has a VOLUME at %s, and the %s %s is at %s: one is below the other, where an earlier task could have left a link in its place; mount the %s elsewhere, or use an image without this VOLUME",
			image, other, found[volume].kind, found[volume].name, volume, found[volume].kind)
	}
	return s.checkLinks(ctx, id, image, all)
}

// volumeName is how messages name a lasting volume.
type volumeName struct{ kind, name string }

func nameOf(o *Options, m *mount.Mount) volumeName {
	if m.Type == mount.TypeBind {
		return volumeName{"path of the host", m.Source}
	}
	return volumeName{"persistent volume", m.VolumeOptions.Labels[o.label("volume")]}
}

// mountsOf returns the paths of all mounts of a container, sorted.
func mountsOf(c *container.InspectResponse) []string {
	var all []string
	for _, m := range c.Mounts {
		all = append(all, path.Clean(m.Destination))
	}
	for target := range c.HostConfig.Tmpfs {
		all = append(all, path.Clean(target))
	}
	slices.Sort(all)
	return all
}

// checkLinks refuses symbolic links of the image on the way to mounts. It goes from the top
// down, and ends at the first link, and no mount is below a lasting volume. So what it
// finds is of the image, although the daemon mounts the volumes for each look. Only the target
// that it reports may lead through a volume.
func (s *starting) checkLinks(ctx context.Context, id, image string, targets []string) error {
	looked := make(map[string]bool)
	for _, target := range targets {
		for _, at := range pathsTo(target) {
			if looked[at] {
				continue
			}
			looked[at] = true
			stat, err := s.driver.client.ContainerStatPath(ctx, id, at)
			if cerrdefs.IsNotFound(err) {
				if err := s.checkMountable(ctx, id); err != nil {
					return err
				}
				break // the runtime creates the rest
			}
			if err != nil {
				return refused(err, "look at %s in a container of image %s, in which a file may be in the place of a volume", at, image)
			}
			if stat.Mode&os.ModeSymlink != 0 {
				return run.Errorf(run.CodeInvalid, "%s is a symbolic link in the image %s: the path of a mount beside a persistent volume or a path of the host must have none; name %s instead, or use another image",
					at, image, path.Join(stat.LinkTarget, strings.TrimPrefix(target, at)))
			}
		}
	}
	return nil
}

// checkMountable refuses a container of which the daemon finds no file, since a path of the host
// has vanished: see taskFiles.
func (s *starting) checkMountable(ctx context.Context, id string) error {
	if !run.HostPaths(s.task.Definition.Volumes) {
		return nil
	}
	_, err := s.driver.client.ContainerStatPath(ctx, id, "/")
	if cerrdefs.IsNotFound(err) {
		return run.Errorf(run.CodeInvalid, "a path of the host has vanished while the task began: %w", err)
	}
	if err != nil {
		return refused(err, "look into a container of %s", s.key())
	}
	return nil
}

// pathsTo returns a cleaned absolute path and the directories above it, from the top down.
func pathsTo(target string) []string {
	var paths []string
	for at := target; at != "/"; at = path.Dir(at) {
		paths = append(paths, at)
	}
	slices.Reverse(paths)
	return paths
}
