package docker

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/drover-run/drover/run"
)

const (
	// shimProcesses is added to a task's limit on processes, which counts
	// threads. The shim, one reader of its journal and the processes that move
	// an archive need about ten threads each.
	shimProcesses = 64

	// Roles of containers, the values of the role label.
	roleMain    = "main"
	roleService = "service"
	roleHelper  = "helper"
	roleSetup   = "setup"
	// roleGitStore is the role of volumes too.
	roleGitStore = "git-store"
	roleVolume   = "volume" // of persistent volumes

	// killSignal is the containers' own stop signal. "docker stop" and a daemon
	// that shuts down thus kill a container at once. SIGTERM is reserved for
	// the executor, which sends it to stop the task.
	killSignal = "SIGKILL"
)

// plan is the checked translation of a definition into the daemon's terms.
type plan struct {
	definition run.Definition
	platform   *ocispec.Platform
	resources  container.Resources
	tmpfs      map[string]string
	volumes    []string      // paths of anonymous volumes
	lasting    []mount.Mount // persistent volumes and paths of the host
	// serviceResources are the limits of the services.
	serviceResources []container.Resources
	nonce            string
}

// newPlan checks everything that can be checked without the daemon. The error
// has CodeInvalid.
func (d *Driver) newPlan(definition run.Definition) (*plan, error) {
	if definition.Image == "" {
		return nil, run.Errorf(run.CodeInvalid, "a task on the docker driver needs an image")
	}
	if n := definition.Resources.GPUs; n > d.options.GPUs {
		return nil, run.Errorf(run.CodeInvalid, "the task asks for %d GPUs, and this executor offers %d (executor.resources.gpus)", n, d.options.GPUs)
	}
	if definition.Privileged && !d.options.AllowPrivileged {
		return nil, run.Errorf(run.CodeInvalid, "privileged tasks are not allowed on this executor (allow_privileged is off)")
	}
	if definition.ServiceNetwork == run.ServiceNetworkOwn {
		if err := (networks{d}).possible(); err != nil {
			return nil, err
		}
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
	for _, s := range definition.Services {
		if s.Privileged && !d.options.AllowPrivileged {
			return nil, run.Errorf(run.CodeInvalid, "service %s: privileged containers are not allowed on this executor (allow_privileged is off)", s.Name)
		}
		r, err := limits(s.Resources)
		if err != nil {
			return nil, run.Errorf(run.CodeInvalid, "service %s: %w", s.Name, err)
		}
		p.serviceResources = append(p.serviceResources, r)
	}
	if err := planHostAccess(&d.options, p); err != nil {
		return nil, err
	}
	return p, p.addVolumes(&d.options)
}

func limits(requested run.Resources) (container.Resources, error) {
	var r container.Resources
	var err error
	if requested.CPU != "" {
		if r.NanoCPUs, err = run.ParseCPU(requested.CPU); err != nil {
			return r, run.Errorf(run.CodeInvalid, "resources.cpu: %w", err)
		}
	}
	if requested.Memory != "" {
		if r.Memory, err = run.ParseMemory(requested.Memory); err != nil {
			return r, run.Errorf(run.CodeInvalid, "resources.memory: %w", err)
		}
		r.MemorySwap = r.Memory // memory and swap together: no swap beyond the limit
	}
	if requested.PIDs > 0 {
		n := int64(requested.PIDs) + shimProcesses
		r.PidsLimit = &n
	}
	return r, nil
}

// tmpfsOptions returns mount options that let every user write to the mount and
// run programs from it, as in a directory of the image.
func tmpfsOptions(size string) (string, error) {
	const all = "rw,exec,nosuid,nodev,mode=1777"
	if size == "" {
		return all, nil
	}
	bytes, err := run.ParseMemory(size)
	if err != nil {
		return "", run.Errorf(run.CodeInvalid, "tmpfs size: %w", err)
	}
	return all + ",size=" + strconv.FormatInt(bytes, 10), nil
}

// mainConfig returns the configuration of the main container. The shim runs as
// root and drops its privileges for the steps.
func (d *Driver) mainConfig(p *plan) (*container.Config, *container.HostConfig) {
	def := p.definition
	config := &container.Config{
		Image:        def.Image,
		User:         "0:0",
		Entrypoint:   shimCommand(p.nonce),
		WorkingDir:   "/", // the shim sets the working directory of the steps
		OpenStdin:    true,
		StdinOnce:    true,
		AttachStdin:  true,
		AttachStdout: true,
		AttachStderr: true,
		Labels:       d.labels(def, roleMain),
		StopSignal:   killSignal,
		Healthcheck:  &container.HealthConfig{Test: []string{"NONE"}},
	}
	config.Labels[d.options.label("nonce")] = p.nonce
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
	host.Mounts = append(host.Mounts, p.lasting...)
	if def.ServiceNetwork != run.ServiceNetworkOwn { // else the daemon's DNS has the names of services
		for _, s := range def.Services {
			for _, name := range s.HostNames() {
				host.ExtraHosts = append(host.ExtraHosts, name+":127.0.0.1")
			}
		}
	}
	host.ExtraHosts = append(host.ExtraHosts, extraHosts(&def)...)
	return config, host
}

// labels returns the labels by which List, and operators, find the containers
// of a task.
func (d *Driver) labels(def run.Definition, role string) map[string]string {
	return map[string]string{
		d.options.label("executor"): d.options.ExecutorID,
		d.options.label("run"):      string(def.Key.Run),
		d.options.label("task"):     def.Task,
		d.options.label("key"):      def.Key.String(),
		d.options.label("role"):     role,
	}
}

func parsePlatform(text string) (*ocispec.Platform, error) {
	if text == "" {
		return nil, nil // no platform requested
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

// newNonce returns the random prefix that tells the shim's frames from the
// output of other processes.
func newNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
