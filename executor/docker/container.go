package docker

import (
	"crypto/rand"
	"encoding/hex"
	"path"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/drover-run/drover/run"
)

const (
	// shimProcesses is what the shim, one reader of its journal, and those who
	// move an archive need of a limit on processes, which counts threads, beside
	// the steps' own: some ten each.
	shimProcesses = 64

	// Roles of containers, in a label.
	roleMain    = "main"
	roleService = "service"
	roleSetup   = "setup"

	// killAtOnce makes whatever stops a container from outside end it at
	// once: SIGTERM is the wish of the executor alone to stop the task.
	killAtOnce = "SIGKILL"
)

// plan is what a definition asks of the daemon, checked.
type plan struct {
	definition run.Definition
	platform   *ocispec.Platform
	resources  container.Resources
	tmpfs      map[string]string
	volumes    []string // paths of anonymous volumes
	nonce      string
}

// newPlan checks what can be checked without the daemon. The error has
// CodeInvalid.
func (d *Driver) newPlan(definition run.Definition) (*plan, error) {
	if definition.Image == "" {
		return nil, run.Errorf(run.CodeInvalid, "a task on the docker driver needs an image")
	}
	if definition.Privileged && !d.options.AllowPrivileged {
		return nil, run.Errorf(run.CodeInvalid, "privileged tasks are not allowed on this executor (allow_privileged is off)")
	}
	p := &plan{definition: definition, volumes: []string{taskDir}, nonce: newNonce()}
	var err error
	if p.platform, err = parsePlatform(definition.Platform); err != nil {
		return nil, err
	}
	if p.resources, err = limits(definition.Resources); err != nil {
		return nil, err
	}
	if len(definition.SecretFiles) > 0 {
		p.tmpfs = map[string]string{secretsDir: secretsOptions}
	}
	for _, v := range definition.Volumes {
		target := path.Clean(v.Path)
		if !path.IsAbs(target) || target == "/" || target == "/.drover" || strings.HasPrefix(target, "/.drover/") {
			return nil, run.Errorf(run.CodeInvalid, "%q can not be the path of a volume", v.Path)
		}
		if v.Tmpfs == nil {
			p.volumes = append(p.volumes, target)
			continue
		}
		if p.tmpfs == nil {
			p.tmpfs = make(map[string]string)
		}
		if p.tmpfs[target], err = tmpfsOptions(v.Tmpfs.Size); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func limits(wanted run.Resources) (container.Resources, error) {
	var r container.Resources
	var err error
	if wanted.CPU != "" {
		if r.NanoCPUs, err = quantity(wanted.CPU, 1e9); err != nil {
			return r, run.Errorf(run.CodeInvalid, "resources.cpu: %w", err)
		}
	}
	if wanted.Memory != "" {
		if r.Memory, err = quantity(wanted.Memory, 1); err != nil {
			return r, run.Errorf(run.CodeInvalid, "resources.memory: %w", err)
		}
		r.MemorySwap = r.Memory // memory and swap together: no swap beyond the limit
	}
	if wanted.PIDs > 0 {
		n := int64(wanted.PIDs) + shimProcesses
		r.PidsLimit = &n
	}
	return r, nil
}

// tmpfsOptions lets anyone use the mount and run programs from it, as with a
// directory of the image.
func tmpfsOptions(size string) (string, error) {
	const all = "rw,exec,nosuid,nodev,mode=1777"
	if size == "" {
		return all, nil
	}
	bytes, err := quantity(size, 1)
	if err != nil {
		return "", run.Errorf(run.CodeInvalid, "tmpfs size: %w", err)
	}
	return all + ",size=" + strconv.FormatInt(bytes, 10), nil
}

// mainConfig describes the main container. The shim runs as root and gives up
// its rights for the steps.
func (d *Driver) mainConfig(p *plan) (*container.Config, *container.HostConfig) {
	def := p.definition
	config := &container.Config{
		Image:        def.Image,
		User:         "0:0",
		Entrypoint:   shimCommand(p.nonce),
		WorkingDir:   "/", // the steps' is the shim's matter
		OpenStdin:    true,
		StdinOnce:    true,
		AttachStdin:  true,
		AttachStdout: true,
		AttachStderr: true,
		Labels:       d.labels(def, roleMain),
		StopSignal:   killAtOnce,
		Healthcheck:  &container.HealthConfig{Test: []string{"NONE"}},
	}
	config.Labels[d.label("nonce")] = p.nonce
	noInit := false // the shim reaps
	host := &container.HostConfig{
		Init:        &noInit,
		LogConfig:   container.LogConfig{Type: "none"}, // the shim's journal is the log
		NetworkMode: container.NetworkMode(d.options.Network),
		Privileged:  def.Privileged,
		Resources:   p.resources,
		Tmpfs:       p.tmpfs,
		Mounts:      []mount.Mount{d.shimMount(true)},
	}
	for _, target := range p.volumes {
		host.Mounts = append(host.Mounts, mount.Mount{
			Type: mount.TypeVolume, Target: target,
			VolumeOptions: &mount.VolumeOptions{Labels: d.labels(def, roleMain)},
		})
	}
	for _, s := range def.Services {
		if s.Name != "" {
			host.ExtraHosts = append(host.ExtraHosts, s.Name+":127.0.0.1")
		}
	}
	return config, host
}

// labels are what List and people find a container of a task by.
func (d *Driver) labels(def run.Definition, role string) map[string]string {
	return map[string]string{
		d.label("executor"): d.options.ExecutorID,
		d.label("run"):      string(def.Key.Run),
		d.label("task"):     def.Task,
		d.label("key"):      def.Key.String(),
		d.label("role"):     role,
	}
}

func parsePlatform(text string) (*ocispec.Platform, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no platform asked for
	}
	parts := strings.Split(text, "/")
	if len(parts) < 2 || len(parts) > 3 {
		return nil, run.Errorf(run.CodeInvalid, "platform %q is not of the form os/arch or os/arch/variant", text)
	}
	p := &ocispec.Platform{OS: parts[0], Architecture: parts[1]}
	if len(parts) == 3 {
		p.Variant = parts[2]
	}
	return p, nil
}

// newNonce marks the shim's lines among those that others print.
func newNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
