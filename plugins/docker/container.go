package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/docker/go-units"

	"github.com/drover-run/drover/plugins/internal/instance"
)

// Container describes the containers of a group.
type Container struct {
	Image      string            `json:"image"`
	Pull       string            `json:"pull"` // missing (default), always or never
	Command    []string          `json:"command"`
	Entrypoint []string          `json:"entrypoint"`
	Env        map[string]string `json:"env"`
	Labels     map[string]string `json:"labels"`
	User       string            `json:"user"`
	WorkingDir string            `json:"working_dir"`
	Network    string            `json:"network"`
	ExtraHosts []string          `json:"extra_hosts"`
	Volumes    []string          `json:"volumes"` // HOST-PATH-OR-VOLUME:PATH[:ro]
	Tmpfs      map[string]string `json:"tmpfs"`
	CapAdd     []string          `json:"cap_add"`
	Privileged bool              `json:"privileged"`
	Init       bool              `json:"init"` // the daemon's own init reaps zombies
	Memory     string            `json:"memory"`
	CPUs       float64           `json:"cpus"`
	Keep       bool              `json:"keep"` // exited containers stay, for their logs
}

// The values of Container.Pull.
const (
	pullMissing = "missing"
	pullAlways  = "always"
	pullNever   = "never"
)

func (c *Container) check() error {
	if c.Image == "" {
		return errors.New("image: required")
	}
	switch c.Pull {
	case "", pullMissing, pullAlways, pullNever:
	default:
		return fmt.Errorf("pull: %q must be %s, %s or %s", c.Pull, pullMissing, pullAlways, pullNever)
	}
	_, _, err := c.configuration(instance.Vars{})
	return err
}

// configuration returns the container's settings for the daemon.
func (c *Container) configuration(vars instance.Vars) (*container.Config, *container.HostConfig, error) {
	command, err := vars.FillAll(c.Command)
	if err != nil {
		return nil, nil, fmt.Errorf("command: %w", err)
	}
	env, err := vars.Environment(nil, c.Env)
	if err != nil {
		return nil, nil, err
	}
	volumes, err := vars.FillAll(c.Volumes)
	if err != nil {
		return nil, nil, fmt.Errorf("volumes: %w", err)
	}
	labels := maps.Clone(c.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[groupLabel], labels[instanceLabel] = vars.Group, vars.ID
	host := &container.HostConfig{
		AutoRemove: !c.Keep, Binds: volumes, NetworkMode: container.NetworkMode(c.Network), ExtraHosts: c.ExtraHosts,
		Tmpfs: c.Tmpfs, CapAdd: c.CapAdd, Privileged: c.Privileged,
	}
	if c.Init {
		host.Init = &c.Init
	}
	host.NanoCPUs = int64(c.CPUs * 1e9)
	if c.Memory != "" {
		if host.Memory, err = units.RAMInBytes(c.Memory); err != nil {
			return nil, nil, fmt.Errorf("memory: %w", err)
		}
	}
	config := &container.Config{
		Image: c.Image, Cmd: command, Entrypoint: c.Entrypoint, Env: env, Labels: labels, User: c.User, WorkingDir: c.WorkingDir,
		Hostname: hostname(vars.ID, c.Network),
	}
	return config, host, nil
}

// hostname returns "" if the container has no hostname of its own. The end of
// an instance's name distinguishes it from others, so a long hostname keeps the
// end.
func hostname(id, network string) string {
	if network == "host" {
		return ""
	}
	return id[max(0, len(id)-63):]
}

// fetch pulls the image, as the pull policy requires.
func (c *Container) fetch(ctx context.Context, cli *client.Client) error {
	if c.Pull == pullNever {
		return nil
	}
	if c.Pull != pullAlways {
		if _, err := cli.ImageInspect(ctx, c.Image); err == nil {
			return nil
		} else if !errdefs.IsNotFound(err) {
			return fmt.Errorf("inspect the image: %w", err)
		}
	}
	progress, err := cli.ImagePull(ctx, c.Image, image.PullOptions{})
	if err != nil {
		return fmt.Errorf("pull the image: %w", err)
	}
	defer func() { _ = progress.Close() }()
	if _, err := io.Copy(io.Discard, progress); err != nil {
		return fmt.Errorf("pull the image: %w", err)
	}
	return nil
}

// addressOf returns the address at which the host reaches a container: its own,
// or the host's if it has none.
func addressOf(c container.InspectResponse) string {
	if c.NetworkSettings != nil {
		for _, n := range c.NetworkSettings.Networks {
			if n.IPAddress != "" {
				return n.IPAddress
			}
		}
	}
	return "127.0.0.1"
}
