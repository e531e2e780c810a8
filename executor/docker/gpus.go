package docker

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/drover-run/drover/run"
)

const (
	// gpuPoll is the pause between two looks for free GPUs, and gpuLimit how long a task
	// waits for them: the executor has reserved them for it, and the environment of an
	// earlier task is about to be removed.
	gpuPoll  = 500 * time.Millisecond
	gpuLimit = 5 * time.Minute
)

// gpus assigns the GPUs of the host, numbered from 0, to tasks. Its memory is a label of
// their main containers, so it survives the executor.
type gpus struct {
	driver *Driver
	mu     sync.Mutex // held from the look for free GPUs until the container exists
}

// assign adds GPUs to the configuration of the main container and to the plan, for the
// helper containers. The caller calls done once the container exists. Errors:
// CodeUnavailable if none were free in time.
func (g *gpus) assign(ctx context.Context, p *plan, config *container.Config, host *container.HostConfig) (done func(), err error) {
	n := p.definition.Resources.GPUs
	if n == 0 {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, gpuLimit, run.Errorf(run.CodeUnavailable, "no %d of the %d GPUs of this executor became free within %s", n, g.driver.options.GPUs, gpuLimit))
	defer cancel()
	for {
		g.mu.Lock()
		free, err := g.free(ctx)
		if err == nil && len(free) >= n {
			label := strings.Join(free[:n], ",")
			config.Labels[g.driver.options.label("gpus")] = label
			p.resources.DeviceRequests = requestGPUs(label)
			host.DeviceRequests = p.resources.DeviceRequests
			return g.mu.Unlock, nil
		}
		g.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if err := pause(ctx, gpuPoll); err != nil {
			return nil, err
		}
	}
}

// free returns the numbers of the GPUs that no container of this executor has.
func (g *gpus) free(ctx context.Context) ([]string, error) {
	d := g.driver
	found, err := d.client.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(
		filters.Arg("label", d.options.label("executor")+"="+d.options.ExecutorID), filters.Arg("label", d.options.label("gpus")))})
	if err != nil {
		return nil, daemonError(err, "list the containers with GPUs")
	}
	var taken []string
	for _, c := range found {
		taken = append(taken, strings.Split(c.Labels[d.options.label("gpus")], ",")...)
	}
	var free []string
	for i := range d.options.GPUs {
		if number := strconv.Itoa(i); !slices.Contains(taken, number) {
			free = append(free, number)
		}
	}
	return free, nil
}

// requestGPUs returns the request for the GPUs of a label; nil for "".
func requestGPUs(label string) []container.DeviceRequest {
	if label == "" {
		return nil
	}
	return []container.DeviceRequest{{DeviceIDs: strings.Split(label, ","), Capabilities: [][]string{{"gpu"}}}}
}
