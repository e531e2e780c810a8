package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errhttp"
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

	// defaultBridge is the name of the daemon's default network. Two of its options do not
	// apply to other networks: the size of packets, and whether the host translates the
	// addresses of those that leave it.
	defaultBridge    = "bridge"
	mtuOption        = "com.docker.network.driver.mtu"
	masqueradeOption = "com.docker.network.bridge.enable_ip_masquerade"

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
// that the executor's configuration names, which may be more restricted. This is so for the
// default bridge too, if it is named.
func (n networks) possible() error {
	if configured := n.driver.options.Network; configured != "" {
		return run.Errorf(run.CodeInvalid, "service_network: own is not possible on this executor: its containers are to join the network %q (executor.docker.network)", configured)
	}
	return nil
}

// create creates a network for a definition and returns its name. Errors: CodeExhausted if
// the daemon has no addresses for it, CodeInvalid if the daemon allows no networks.
func (n networks) create(ctx context.Context, p *plan) (string, error) {
	d, key := n.driver, p.definition.Key
	options, err := n.defaults(ctx)
	name := d.options.mainName(key) + "." + p.nonce[:networkNonce]
	add := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
		defer cancel()
		_, err = d.client.NetworkCreate(ctx, name, network.CreateOptions{
			Driver: "bridge", Options: options, Labels: d.labels(p.definition, roleNetwork),
		})
	}
	if err == nil {
		add()
	}
	if exhausted(err) && n.removeUnused(ctx, key) {
		add()
	}
	switch {
	case err == nil:
		return name, nil
	case exhausted(err):
		return "", run.Errorf(run.CodeExhausted, "the docker daemon has no free address pool for the network of the services: other networks use all of them; remove unused ones, or add pools (default-address-pools in its daemon.json): %s", daemonText(err))
	case notOffered(err):
		return "", run.Errorf(run.CodeInvalid, "the API of the docker daemon does not allow networks, which service_network: own needs: %s", daemonText(err))
	}
	return "", daemonError(err, "create the network of %s", key)
}

// exhausted reports whether the daemon has no addresses for a network.
func exhausted(err error) bool {
	return err != nil && (strings.Contains(err.Error(), noAddressPool) || strings.Contains(err.Error(), noSubnet))
}

// notOffered reports whether the API of the daemon has no networks for this executor:
// something between the two may refuse them in any of these ways.
func notOffered(err error) bool {
	return slices.ContainsFunc([]int{
		http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented,
	}, func(status int) bool { return errors.Is(err, errhttp.ToNative(status)) })
}

// defaults returns the options that networks take over from the daemon's default one. That
// one's enable_icc is not among them: services must be reached. Without a default network,
// the owner of the host wants none of this kind.
func (n networks) defaults(ctx context.Context) (map[string]string, error) {
	found, err := n.driver.client.NetworkList(ctx, network.ListOptions{Filters: filters.NewArgs(filters.Arg("name", defaultBridge))})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(found, func(f network.Summary) bool { return f.Name == defaultBridge })
	if i < 0 {
		return nil, run.Errorf(run.CodeInvalid, "the docker daemon has no network %q, whose options a network of the services takes over: service_network: own needs a daemon with its default network", defaultBridge)
	}
	options := make(map[string]string)
	for _, name := range []string{mtuOption, masqueradeOption} {
		if value := found[i].Options[name]; value != "" {
			options[name] = value
		}
	}
	return options, nil
}

// list returns the networks with a label; none if the daemon's API does not offer to list
// networks: it does not offer to create them either.
func (n networks) list(ctx context.Context, label, value string) ([]network.Summary, error) {
	found, err := n.driver.client.NetworkList(ctx, network.ListOptions{
		Filters: filters.NewArgs(filters.Arg("label", n.driver.options.label(label)+"="+value)),
	})
	if notOffered(err) {
		return nil, nil
	}
	if err != nil {
		return nil, daemonError(err, "list networks")
	}
	return found, nil
}

// removeAll removes networks whose containers were removed. One that cannot be removed does
// not keep the others.
func (n networks) removeAll(ctx context.Context, found []network.Summary) error {
	var group errgroup.Group
	for _, f := range found {
		group.Go(func() error { return n.remove(ctx, f.ID) })
	}
	return group.Wait()
}

// removeUnused removes the networks of a key that have no endpoints, and reports whether
// there were any. If another process was about to use one, it finds out and starts again.
func (n networks) removeUnused(ctx context.Context, key run.Key) (removed bool) {
	found, err := n.list(ctx, "key", key.String())
	if err != nil {
		n.driver.log.WarnContext(ctx, "failed to look for unused networks", "key", key.String(), "error", err)
	}
	for _, f := range found {
		removed = n.removeAbandoned(ctx, key, container.NetworkMode(f.Name)) || removed
	}
	return removed
}

// removeAbandoned removes the network of a container that was removed, if it is one of the
// key and has no endpoints: else another container still uses it, whose removal follows. It
// reports whether it has removed it.
func (n networks) removeAbandoned(ctx context.Context, key run.Key, mode container.NetworkMode) bool {
	if !strings.HasPrefix(string(mode), n.driver.options.mainName(key)+".") {
		return false
	}
	err := n.driver.client.NetworkRemove(ctx, string(mode))
	if err != nil && !cerrdefs.IsNotFound(err) && !strings.Contains(err.Error(), activeEndpoints) { // Remove tries again
		n.driver.log.WarnContext(ctx, "failed to remove an unused network", "network", string(mode), "error", err)
	}
	return err == nil
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

// networkMissing is the error of a container that could not be created or started. If the
// network of the services was removed, that is no fault of the task.
func (s *starting) networkMissing(err error, format string, args ...any) error {
	if s.ownNetwork != "" && cerrdefs.IsNotFound(err) && strings.Contains(err.Error(), "network ") { // no image's name has a space
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
