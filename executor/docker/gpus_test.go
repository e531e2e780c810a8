package docker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/docker"
	"github.com/drover-run/drover/run"
)

// createRequests passes requests on, and keeps those that create containers.
type createRequests struct {
	next   http.RoundTripper
	before func(role string) // called for each; nil for nothing
	mu     sync.Mutex
	sent   []container.CreateRequest
}

func (c *createRequests) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/containers/create") {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var request container.CreateRequest
		if err := json.Unmarshal(body, &request); err != nil {
			return nil, err
		}
		if c.before != nil {
			c.before(request.Labels["drover.role"])
		}
		c.mu.Lock()
		c.sent = append(c.sent, request)
		c.mu.Unlock()
	}
	return c.next.RoundTrip(r)
}

// gpusOf returns the GPUs in the requests since the last call, by the role of the container.
func (c *createRequests) gpusOf() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := make(map[string]string)
	for _, r := range c.sent {
		for _, device := range r.HostConfig.DeviceRequests {
			found[r.Labels["drover.role"]] = strings.Join(device.DeviceIDs, ",") + " " + device.Capabilities[0][0]
		}
	}
	c.sent = nil
	return found
}

// TestDriver_gpus checks the requests for GPUs, which the daemon of most machines
// refuses when the container starts.
func TestDriver_gpus(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	requests := &createRequests{next: b.cli.HTTPClient().Transport}
	cli, err := client.NewClientWithOpts(client.FromEnv, client.WithHTTPClient(&http.Client{Transport: requests}), client.WithAPIVersionNegotiation())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cli.Close()) })
	b.driver = b.newDriver(t, docker.Options{Client: cli, GPUs: 3})
	start := func(ctx context.Context, n int) error {
		def := b.definition(t, "true")
		def.Resources.GPUs = n
		h, err := b.driver.Start(ctx, executor.Task{Definition: def, Launch: launchAt(1)})
		if err == nil { // there are GPUs
			require.NoError(t, h.Remove(context.WithoutCancel(ctx)))
		}
		return err
	}
	require.Equal(t, run.CodeInvalid, run.CodeOf(start(t.Context(), 4)))

	other, err := b.cli.ContainerCreate(t.Context(), &container.Config{
		Image: b.image, Labels: map[string]string{"drover.executor": b.id, "drover.gpus": "1"},
	}, nil, nil, nil, "")
	require.NoError(t, err)
	remove := sync.OnceFunc(func() {
		require.NoError(t, b.cli.ContainerRemove(context.WithoutCancel(t.Context()), other.ID, container.RemoveOptions{Force: true}))
	})
	t.Cleanup(remove)
	if err := start(t.Context(), 2); err != nil {
		require.ErrorContains(t, err, "device")
	}
	require.Equal(t, map[string]string{"main": "0,2 gpu"}, requests.gpusOf())

	short, cancel := context.WithTimeout(t.Context(), time.Second) //nolint:forbidigo // ends the wait for a device
	defer cancel()
	require.Error(t, start(short, 3))
	require.Empty(t, requests.gpusOf())
	waiting := make(chan error, 1)
	go func() { waiting <- start(t.Context(), 3) }()
	remove()
	if err := <-waiting; err != nil {
		require.ErrorContains(t, err, "device")
	}
	require.Equal(t, map[string]string{"main": "0,1,2 gpu"}, requests.gpusOf())
}
