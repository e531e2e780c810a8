package docker

import (
	"context"
	"os"
	"path"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/drover-run/drover/run"
)

// addVolumes adds the volumes of the definition, and the working directory that the containers
// of the task share. An earlier task can leave a link in its persistent volume, which the
// runtime would follow to any directory of the container, such as the shim's. So nothing is
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
		if err := run.CheckVolumePath(target); err != nil && run.PersistentVolumes(def.Volumes) {
			return run.Errorf(run.CodeInvalid, "%w", err)
		}
		switch {
		case v.Name != "":
			if def.VolumeScope == "" {
				return run.Errorf(run.CodeInvalid, "the definition of the task does not say whose volume %s is (volume_scope): the gateway gave none", v.Name)
			}
			if err := run.CheckVolumePlace(target, def.Resources.GPUs > 0); err != nil {
				return run.Errorf(run.CodeInvalid, "%w", err)
			}
			if target == shared && v.ReadOnly {
				return run.Errorf(run.CodeInvalid, "the volume %s is the working directory that the containers of the task share, and so it cannot be read_only", v.Name)
			}
			p.persistent = append(p.persistent, persistentMount(o, def.VolumeScope, v))
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
	if shared != "" && !p.isPersistent(shared) {
		if err := run.CheckVolumePath(shared); err != nil && len(p.persistent) > 0 {
			return run.Errorf(run.CodeInvalid, "%w", err)
		}
		p.volumes = append(p.volumes, shared)
	}
	if volume, other := nested(p.persistentTargets(), p.targets()); volume != "" {
		return run.Errorf(run.CodeInvalid, "one of %q and %q is below the other: nothing can be mounted below a persistent volume, nor a persistent volume below another mount", volume, other)
	}
	return nil
}

// targets returns the paths of all mounts of the main container that the definition names.
func (p *plan) targets() []string {
	targets := slices.Concat(p.persistentTargets(), p.volumes)
	for target := range p.tmpfs {
		targets = append(targets, target)
	}
	slices.Sort(targets)
	return targets
}

func (p *plan) persistentTargets() []string {
	targets := make([]string, 0, len(p.persistent))
	for _, m := range p.persistent {
		targets = append(targets, m.Target)
	}
	return targets
}

func (p *plan) isPersistent(target string) bool {
	return slices.Contains(p.persistentTargets(), target)
}

// nested returns a persistent volume that is below another mount, or has one below it, and
// that mount; "" if there is none. all are the paths of all mounts.
func nested(persistent, all []string) (volume, other string) {
	for _, volume := range persistent {
		for _, other := range all {
			if strings.HasPrefix(other, volume+"/") || strings.HasPrefix(volume, other+"/") {
				return volume, other
			}
		}
	}
	return "", ""
}

// checkMounts refuses a container with persistent volumes, created and not started, in which a
// mount would not be where its path says: one of them below the other, or behind a link of the
// image. The daemon adds the volumes of the image to those of the definition, and the helper
// containers and services have images of their own.
func (s *starting) checkMounts(ctx context.Context, id, image string) error {
	if len(s.plan.persistent) == 0 {
		return nil
	}
	c, err := s.driver.client.ContainerInspect(ctx, id)
	if err != nil {
		return daemonError(err, "inspect a container of %s", s.key())
	}
	all, names := mountsOf(&c), make(map[string]string)
	var persistent []string
	for _, m := range s.plan.persistent {
		// A service has only the one that it shares, and perhaps a VOLUME at the path of another.
		if slices.ContainsFunc(c.Mounts, func(found container.MountPoint) bool { return found.Name == m.Source && found.Destination == m.Target }) {
			persistent = append(persistent, m.Target)
			names[m.Target] = m.VolumeOptions.Labels[s.driver.options.label("volume")]
		}
	}
	if len(persistent) == 0 {
		return nil
	}
	if volume, other := nested(persistent, all); volume != "" {
		return run.Errorf(run.CodeInvalid,
			"image %s has a VOLUME at %s, and the persistent volume %s is at %s: one is below the other, where an earlier task could have left a link in its place; mount the persistent volume elsewhere, or use an image without this VOLUME",
			image, other, names[volume], volume)
	}
	return s.checkLinks(ctx, id, image, all)
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
// down, and ends at the first link, and no mount is below a persistent volume. So what it
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
				break // the runtime creates the rest
			}
			if err != nil {
				return refused(err, "look at %s in a container of image %s, in which a file may be in the place of a volume", at, image)
			}
			if stat.Mode&os.ModeSymlink != 0 {
				return run.Errorf(run.CodeInvalid, "%s is a symbolic link in the image %s: the path of a mount beside a persistent volume must have none; name %s instead, or use another image",
					at, image, path.Join(stat.LinkTarget, strings.TrimPrefix(target, at)))
			}
		}
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
