package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// The interval and the timeout of polls of the fleet.
const (
	fleetPollInterval = 2 * time.Millisecond
	fleetTimeout      = 2 * time.Minute
)

// reaction measures how long a task waits until an empty fleet has requested a
// machine from its plugin, and the machine has started. The machines are
// processes on the plugin's host, so this measures the request, and some 20 ms
// for the process.
func reaction(ctx context.Context, d *dev, t *table, n int) error {
	plugin, err := filepath.Abs(filepath.Join(filepath.Dir(d.cmd.Path), "fleeting-plugin-process"))
	if err != nil {
		return fmt.Errorf("find the plugin: %w", err)
	}
	if _, err := os.Stat(plugin); err != nil {
		return fmt.Errorf("find the plugin (make plugins): %w", err)
	}
	begun := filepath.Join(d.dir, "begun")
	settings, err := json.Marshal(map[string]any{
		"pool": "bench-fleet", "plugin": plugin, "max_instances": 1, "hold_down": "0s",
		"update_interval": "1s", "update_interval_when_expecting": "100ms",
		"plugin_config": map[string]any{
			"name": "bench", "state_dir": filepath.Join(d.dir, "machines"), "stop_timeout": "1s", "command": []string{"/bin/sh", "-c", "touch " + begun + "; exec sleep 600"},
		},
	})
	if err != nil {
		return fmt.Errorf("encode the settings: %w", err)
	}
	if _, err := d.call(ctx, http.MethodPut, "/api/v1/pools/bench-fleet", `{"driver": "shell"}`); err != nil {
		return err
	}
	if _, err := d.call(ctx, http.MethodPut, "/api/v1/fleets/bench", string(settings)); err != nil {
		return err
	}
	var took []time.Duration
	for range n {
		if err := d.emptyFleet(ctx); err != nil { // and no machine starts while the fleet drains
			return err
		}
		if _, err := d.call(ctx, http.MethodPost, "/api/v1/fleets/bench/resume", "{}"); err != nil {
			return err
		}
		_ = os.Remove(begun)
		at := time.Now()
		id, err := d.submit(ctx, "name: reaction\ngroup: /bench/fleet\ntasks: {t: {pool: bench-fleet, steps: [{run: 'true'}]}}\n")
		if err != nil {
			return err
		}
		if err := poll(ctx, "a machine", func() (bool, error) {
			_, err := os.Stat(begun)
			if errors.Is(err, os.ErrNotExist) {
				return false, nil
			}
			return err == nil, err
		}); err != nil {
			return err
		}
		took = append(took, time.Since(at))
		for _, path := range []string{"/api/v1/runs/" + id + "/stop", "/api/v1/fleets/bench/drain"} {
			if _, err := d.call(ctx, http.MethodPost, path, "{}"); err != nil {
				return err
			}
		}
	}
	t.add(resultRow{
		name:   fmt.Sprintf("from the submission of a task to the start of a machine for it by an empty fleet, p95 of %d", n),
		drover: ms(percentile(took, 95)) + " (p50 " + ms(percentile(took, 50)) + ")", goal: "< 1 s", met: percentile(took, 95) < time.Second,
	})
	_, err = d.call(ctx, http.MethodDelete, "/api/v1/fleets/bench", "{}")
	return err
}

// emptyFleet waits until the fleet of the benchmark has no machine.
func (d *dev) emptyFleet(ctx context.Context) error {
	return poll(ctx, "an empty fleet", func() (bool, error) {
		body, err := d.get(ctx, "/api/v1/fleets/bench/instances", "application/json")
		if err != nil {
			return false, err
		}
		defer func() { _ = body.Close() }()
		var list struct {
			Instances []json.RawMessage `json:"instances"`
		}
		err = json.NewDecoder(body).Decode(&list)
		return err == nil && len(list.Instances) == 0, err
	})
}

// poll waits for a condition.
func poll(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, fleetTimeout, errors.New(what+" did not appear"))
	defer cancel()
	ticker := time.NewTicker(fleetPollInterval)
	defer ticker.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
