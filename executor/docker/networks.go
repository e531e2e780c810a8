package docker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/run"
)

const (
	// roleNetwork is the role of networks of services.
	roleNetwork = "network"
	// networkPoll is the interval at which the removal of a network is tried that has
	// endpoints, and networkLimit how long: the daemon may still be closing those of
	// containers that were removed.
	networkPoll  = 100 * time.Millisecond
	networkLimit = 10 * time.Second
	// networkNonce is how many characters of the nonce are in the name of a network.
	networkNonce = 12

	// defaultBridge is the name of the daemon's default network, and mtuOption its option
	// for the size of packets, which does not apply to other networks.
	defaultBridge = "bridge"
	mtuOption     = "com.docker.network.driver.mtu"

	// The daemon's texts for errors that have the same status as others.
	activeEndpoints = "has active endpoints"
	noAddressPool   = "non-overlapping IPv4 address pool"
	noSubnet        = "all predefined address pools have been fully subnetted"
)

// networks creates and removes the networks of tasks whose services have one of their own.
// Each call of Start makes a network with another name, so no process can remove the one
// that another process is about to use. All are found by their labels.
type networks struct{ driver *Driver }

// possible returns nil if tasks may have networks of their own: they would leave a network
// that the executor's configuration names, which may be more restricted.
func (n networks) possible() error {
	switch configured := n.driver.options.Network; configured {
	case "", "default", defaultBridge:
		return nil
	default:
		return run.Errorf(run.CodeInvalid, "service_network: own is not possible on this executor: its containers are to join the network %q (executor.docker.network)", configured)
	}
}

// create creates a network for a definition and returns its name. Errors: CodeExhausted if
// the daemon has no addresses for it, CodeInvalid if the daemon allows no networks.
func (n networks) create(ctx context.Context, p *plan) (string, error) {
	d, key := n.driver, p.definition.Key
	options, err := n.defaults(ctx)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
		defer cancel()
		name := d.options.mainName(key) + "." + p.nonce[:networkNonce]
		_, err = d.client.NetworkCreate(ctx, name, network.CreateOptions{
			Driver: "bridge", Options: options, Labels: d.labels(p.definition, roleNetwork),
		})
		if err == nil {
			return name, nil
		}
	}
	text := daemonText(err)
	switch {
	case strings.Contains(text, noAddressPool), strings.Contains(text, noSubnet):
		return "", run.Errorf(run.CodeExhausted, "the docker daemon has no free address pool for the network of the services: other networks use all of them; remove unused ones, or add pools (default-address-pools in its daemon.json): %s", text)
	case cerrdefs.IsPermissionDenied(err):
		return "", run.Errorf(run.CodeInvalid, "the API of the docker daemon does not allow networks, which service_network: own needs: %s", text)
	}
	return "", daemonError(err, "create the network of %s", key)
}

// defaults returns the options that networks take over from the daemon's default one.
func (n networks) defaults(ctx context.Context) (map[string]string, error) {
	found, err := n.driver.client.NetworkList(ctx, network.ListOptions{Filters: filters.NewArgs(filters.Arg("name", defaultBridge))})
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		if mtu := f.Options[mtuOption]; f.Name == defaultBridge && mtu != "" {
			return map[string]string{mtuOption: mtu}, nil
		}
	}
	return nil, nil //nolint:nilnil // no options
}

// list returns the networks with a label; none if the daemon's API does not allow to list
// networks: it does not allow to create them either.
func (n networks) list(ctx context.Context, label, value string) ([]network.Summary, error) {
	found, err := n.driver.client.NetworkList(ctx, network.ListOptions{
		Filters: filters.NewArgs(filters.Arg("label", n.driver.options.label(label)+"="+value)),
	})
	if cerrdefs.IsPermissionDenied(err) {
		return nil, nil
	}
	if err != nil {
		return nil, daemonError(err, "list networks")
	}
	return found, nil
}

// removeAll removes networks whose containers were removed.
func (n networks) removeAll(ctx context.Context, found []network.Summary) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, f := range found {
		group.Go(func() error { return n.remove(ctx, f.ID) })
	}
	return group.Wait()
}

// remove removes a network whose containers were removed. It disconnects what is left:
// endpoints that the daemon failed to remove, and containers that someone has connected.
// A missing network is not an error.
func (n networks) remove(ctx context.Context, name string) error {
	client := n.driver.client
	limit, cancel := context.WithTimeoutCause(ctx, networkLimit, run.Errorf(run.CodeUnavailable, "network %s still had endpoints after %s", name, networkLimit))
	defer cancel()
	for {
		err := client.NetworkRemove(limit, name)
		if err == nil || cerrdefs.IsNotFound(err) {
			return nil
		}
		if !strings.Contains(daemonText(err), activeEndpoints) {
			return daemonError(err, "remove network %s", name)
		}
		if err := pause(limit, networkPoll); err != nil {
			return err
		}
		found, err := client.NetworkInspect(limit, name, network.InspectOptions{})
		if err != nil && !cerrdefs.IsNotFound(err) {
			return daemonError(err, "inspect network %s", name)
		}
		for id, endpoint := range found.Containers {
			if strings.HasPrefix(id, "ep-") { // without a container, the name is that of the endpoint
				id = endpoint.Name
			}
			if err := client.NetworkDisconnect(limit, name, id, true); err != nil && !cerrdefs.IsNotFound(err) {
				n.driver.log.WarnContext(ctx, "failed to disconnect a container from a network", "network", name, "container", id, "error", err)
			}
		}
	}
}

// joinOwnNetwork creates the network of the services, once, and makes the main container
// join it.
func (s *starting) joinOwnNetwork(ctx context.Context, host *container.HostConfig) (err error) {
	if s.task.Definition.ServiceNetwork != run.ServiceNetworkOwn {
		return nil
	}
	if s.ownNetwork == "" {
		if s.ownNetwork, err = (networks{s.driver}).create(ctx, s.plan); err != nil {
			return err
		}
	}
	host.NetworkMode = container.NetworkMode(s.ownNetwork)
	return nil
}

// removeOwnNetwork removes the network that this call has created. No container of another
// call uses it.
func (s *starting) removeOwnNetwork(ctx context.Context) error {
	if s.ownNetwork == "" {
		return nil
	}
	return networks{s.driver}.remove(ctx, s.ownNetwork)
}

// serviceNetwork configures the network of a service. On a network of its own, it cannot
// read the names of hosts from the main container, nor can that see its ports.
func (s *starting) serviceNetwork(service *run.ServiceSpec, host *container.HostConfig) *network.NetworkingConfig {
	if s.ownNetwork == "" {
		host.NetworkMode = container.NetworkMode(s.network())
		return nil
	}
	host.NetworkMode = container.NetworkMode(s.ownNetwork)
	host.ExtraHosts = extraHosts(&s.task.Definition)
	host.Mounts = append(host.Mounts, s.driver.shimMount(true))
	return &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{
		s.ownNetwork: {Aliases: service.HostNames()},
	}}
}

// networkMissing is the error of a container that could not be started. If the network of
// the services was removed, that is no fault of the task.
func (s *starting) networkMissing(err error, format string, args ...any) error {
	if s.ownNetwork != "" && cerrdefs.IsNotFound(err) && strings.Contains(daemonText(err), "network") {
		return &run.Error{
			Code: run.CodeUnavailable, Err: err,
			Message: fmt.Sprintf(format, args...) + ": its network was removed, perhaps by another process of this executor: " + daemonText(err),
		}
	}
	return refused(err, format, args...)
}

// extraHosts returns the extra hosts of a definition in the form of the daemon.
func extraHosts(def *run.Definition) []string {
	var hosts []string
	for _, name := range slices.Sorted(maps.Keys(def.ExtraHosts)) {
		hosts = append(hosts, name+":"+def.ExtraHosts[name])
	}
	return hosts
}
