package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/test/harness"
)

// dev is the measured `drover dev`, or Drover in several processes.
type dev struct {
	cmd      *exec.Cmd   // `drover dev`, or the only gateway; nil for several processes
	others   []*exec.Cmd // the several processes, last started first
	dir      string
	server   string
	token    string
	temporal string

	mu         sync.Mutex
	ended      map[string]chan time.Time // by run
	endedEarly map[string]time.Time      // runs that ended before await was called
	events     atomic.Int64              // that follow has read
}

// startDev starts a binary. If stored is not "", a copy of it is its records.
func startDev(ctx context.Context, binary, stored string) (*dev, error) {
	dir, err := os.MkdirTemp("", "drover-bench-")
	if err != nil {
		return nil, fmt.Errorf("create the data dir: %w", err)
	}
	d := &dev{dir: dir, ended: map[string]chan time.Time{}, endedEarly: map[string]time.Time{}}
	d.temporal, err = freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	if stored != "" {
		if err := copyFile(filepath.Join(dir, "data", "records.db"), stored); err != nil {
			return nil, fmt.Errorf("copy the stored records: %w", err)
		}
	}
	args := []string{"dev", "--data-dir", filepath.Join(dir, "data"), "--http", "127.0.0.1:0", "--temporal", d.temporal, "--temporal-ui", "", "--executor", "shell"}
	if dockerAvailable() {
		args = append(args, "--executor", "docker")
	}
	d.cmd, err = launch(ctx, binary, []string{
		"DROVER_CONTEXT=" + filepath.Join(dir, "context.yaml"), "DROVER_LOG__LEVEL=warn",
		"DROVER_FLEET__PLUGIN_PATH=" + filepath.Dir(binary), "DROVER_EXECUTOR__RESOURCES__MEMORY=64Gi",
	}, args...)
	if err != nil {
		return nil, err
	}
	c, err := harness.Context(dir)
	if err != nil {
		return nil, err
	}
	token, err := os.ReadFile(c.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	d.server, d.token = c.Server, strings.TrimSpace(string(token))
	return d, d.followAll(ctx)
}

// launch starts a drover process, and waits until it is ready.
func launch(ctx context.Context, binary string, env []string, args ...string) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("pipe the output: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start drover: %w", err)
	}
	scanner := bufio.NewScanner(out)
	for scanner.Scan() {
		if strings.HasPrefix(scanner.Text(), "ready") {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return cmd, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("drover %s ended before it was ready", args[0]), cmd.Wait())
}

func (d *dev) stop() {
	for _, cmd := range append([]*exec.Cmd{d.cmd}, d.others...) {
		if cmd != nil {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
		}
	}
	_ = os.RemoveAll(d.dir)
}

// followAll begins to follow the events of all runs.
func (d *dev) followAll(ctx context.Context) error {
	events, err := d.get(ctx, "/api/v1/events", "text/event-stream")
	if err != nil {
		return err
	}
	go d.follow(events)
	return nil
}

// follow records when each run ends, as a client that reads the events sees it.
func (d *dev) follow(events io.ReadCloser) {
	defer func() { _ = events.Close() }()
	scanner := bufio.NewScanner(events)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		data, ok := strings.CutPrefix(scanner.Text(), "data: ")
		if !ok {
			data, ok = strings.CutPrefix(scanner.Text(), "data:")
		}
		if !ok {
			continue
		}
		d.events.Add(1)
		var event struct {
			Type  string `json:"type"`
			Run   string `json:"run"`
			Phase string `json:"phase"`
		}
		if json.Unmarshal([]byte(data), &event) != nil || event.Type != "run" || event.Phase != "finished" {
			continue
		}
		d.mu.Lock()
		if ch, ok := d.ended[event.Run]; ok {
			ch <- time.Now()
			delete(d.ended, event.Run)
		} else {
			d.endedEarly[event.Run] = time.Now()
		}
		d.mu.Unlock()
	}
}

// await returns when the run ended.
func (d *dev) await(ctx context.Context, id string) (time.Time, error) {
	d.mu.Lock()
	if at, ok := d.endedEarly[id]; ok {
		delete(d.endedEarly, id)
		d.mu.Unlock()
		return at, nil
	}
	ch := make(chan time.Time, 1)
	d.ended[id] = ch
	d.mu.Unlock()
	select {
	case at := <-ch:
		return at, nil
	case <-time.After(10 * time.Minute):
		return time.Time{}, fmt.Errorf("run %s did not end", id)
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	}
}

// run submits a specification and returns the run and how long it took to end.
func (d *dev) run(ctx context.Context, spec string) (string, time.Duration, error) {
	begin := time.Now()
	id, err := d.submit(ctx, spec)
	if err != nil {
		return "", 0, err
	}
	end, err := d.await(ctx, id)
	return id, end.Sub(begin), err
}

func (d *dev) submit(ctx context.Context, spec string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.server+"/api/v1/runs", strings.NewReader(spec))
	if err != nil {
		return "", fmt.Errorf("create a request: %w", err)
	}
	req.Header.Set("Content-Type", "application/yaml")
	req.Header.Set("Authorization", "Bearer "+d.token)
	resp, err := benchClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("submit a run: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusCreated {
		return "", fmt.Errorf("submit a run: %s %s %w", resp.Status, body, err)
	}
	var r api.Run
	if err := json.Unmarshal(body, &r); err != nil {
		return "", fmt.Errorf("read the run: %w", err)
	}
	return r.ID, nil
}

// read reads a run.
func (d *dev) read(ctx context.Context, id string) (api.Run, error) {
	body, err := d.get(ctx, "/api/v1/runs/"+id, "application/json")
	if err != nil {
		return api.Run{}, err
	}
	defer func() { _ = body.Close() }()
	var r api.Run
	if err := json.NewDecoder(body).Decode(&r); err != nil {
		return api.Run{}, fmt.Errorf("read run %s: %w", id, err)
	}
	return r, nil
}

func (d *dev) get(ctx context.Context, path, accept string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.server+path, nil)
	if err != nil {
		return nil, fmt.Errorf("create a request: %w", err)
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Authorization", "Bearer "+d.token)
	resp, err := benchClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("get %s: %s", path, resp.Status)
	}
	return resp.Body, nil
}

// benchClient keeps as many connections as there are clients.
var benchClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

func copyFile(to, from string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}
