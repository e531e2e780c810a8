package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-run/drover/api"
)

const (
	// idlePool is a pool without executors: its tasks stay queued.
	idlePool = "bench-idle"

	attackPrepares = 8 * time.Minute
	attackGroup    = "/bench/attack"
	otherGroup     = "/bench/other"
)

// attack is work that one tenant makes for the server, as much as the limits allow.
type attack struct {
	name    string
	prepare func(ctx context.Context, from attackers) (*underWay, error)
}

// attackers are clients with the tokens of tenants.
type attackers struct {
	admin, tenant, reader *dev
	scale                 int
}

// underWay is an attack that has begun.
type underWay struct {
	runs []string // to stop at its end
	// clients read a path, one time after the other, each for the time if that is not 0.
	clients        int
	client         *dev
	path, accepts  string
	each           time.Duration
	reads, refused atomic.Int64
	// tasks counts the tasks whose conditions the server has evaluated, and all; nil
	// for other attacks.
	tasks func(ctx context.Context) (evaluated, all int, err error)
	about string // what exists
}

func attackList() []attack {
	return []attack{
		{"50 clients search a long log", searches},
		{"the conditions of many tasks are evaluated", conditions},
		{"4 clients read all events of a group without any", streams},
		{"tasks with different amounts wait", amounts},
	}
}

// searches makes many searches of a log for a text that it does not have.
func searches(ctx context.Context, from attackers) (*underWay, error) {
	bytes := 100_000_000 / from.scale
	id, err := from.tenant.submit(ctx, fmt.Sprintf("name: long\ngroup: %s\ntasks: {t: {pool: shell, steps: [{run: 'yes %s | head -c %d'}]}}\n",
		attackGroup, strings.Repeat("0123456789", 10), bytes))
	if err != nil {
		return nil, err
	}
	if _, err := from.admin.await(ctx, id); err != nil {
		return nil, err
	}
	return &underWay{
		clients: 50, client: from.tenant, path: "/api/v1/runs/" + id + "/tasks/t/logs/search?text=zzzz", accepts: "application/json",
		about: fmt.Sprintf("%d MB", bytes/1_000_000),
	}, nil
}

// conditions submits a run of many tasks whose conditions cost nearly as much as they
// may.
func conditions(ctx context.Context, from attackers) (*underWay, error) {
	id, err := from.tenant.submit(ctx, costlyRun(10_000/from.scale))
	if err != nil {
		return nil, err
	}
	a := &underWay{runs: []string{id}}
	a.tasks = func(ctx context.Context) (int, int, error) { return from.admin.begun(ctx, "costly") }
	return a, from.admin.until(ctx, func() (bool, error) {
		evaluated, all, err := a.tasks(ctx)
		a.about = fmt.Sprintf("%d tasks with 256 conditions each", all)
		return evaluated > 0, err
	})
}

// streams reads events from the first one on, as a tenant that has none.
func streams(_ context.Context, from attackers) (*underWay, error) {
	return &underWay{
		clients: 4, client: from.reader, path: "/api/v1/events", accepts: "text/event-stream", each: 500 * time.Millisecond,
		about: fmt.Sprintf("%d events of others", from.admin.events.Load()),
	}, nil
}

// amounts submits runs of tasks that each ask for another amount of memory, and
// reads one of these runs.
func amounts(ctx context.Context, from attackers) (*underWay, error) {
	a := &underWay{clients: 1, client: from.tenant, accepts: "application/json"}
	for i := range max(1, 10/from.scale) {
		id, err := from.tenant.submit(ctx, amountsRun(i*1_000))
		if err != nil {
			return nil, err
		}
		a.runs = append(a.runs, id)
	}
	a.path = "/api/v1/runs/" + a.runs[0]
	return a, from.admin.until(ctx, func() (bool, error) {
		waiting, all, err := from.admin.begun(ctx, "amounts")
		a.about = fmt.Sprintf("%d amounts", waiting)
		return all > 0 && waiting == all, err
	})
}

// costlyRun is a run of n tasks, each with as many conditions as a task may have.
func costlyRun(n int) string {
	condition := "[" + integers(8) + "].all(a, [" + integers(8) + "].all(b, a + b >= 0))"
	steps := make([]map[string]string, 256)
	for i := range steps {
		steps[i] = map[string]string{"run": "true", "if": condition}
	}
	axis := strings.Split(integers(int(math.Sqrt(float64(n)))), ",")
	return jsonOf(map[string]any{"name": "costly", "group": attackGroup, "tasks": map[string]any{
		"t": map[string]any{"pool": idlePool, "steps": steps, "matrix": map[string]any{"I": axis, "J": axis}},
	}})
}

func integers(n int) string { return strings.ReplaceAll(numbers(n), `"`, "") }

// amountsRun is a run of 1,000 tasks that each ask for another amount of memory.
func amountsRun(from int) string {
	tasks := map[string]any{}
	for i := range 1_000 {
		tasks["t"+strconv.Itoa(i)] = map[string]any{
			"pool": "shell", "resources": map[string]string{"memory": strconv.Itoa(100_000_000 + from + i)},
			"steps": []map[string]string{{"run": "sleep 3600"}},
		}
	}
	return jsonOf(map[string]any{"name": "amounts", "group": attackGroup, "tasks": tasks})
}

func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error() // texts, lists and maps have none
	}
	return string(text)
}

// attacks measures how long another tenant's submissions take while nothing else
// happens, and during each attack.
func attacks(ctx context.Context, d *dev, t *table, n, scale int, store string) error {
	if _, err := d.call(ctx, http.MethodPut, "/api/v1/pools/"+idlePool, `{"driver": "shell", "os": "linux", "arch": "amd64"}`); err != nil {
		return err
	}
	from := attackers{admin: d, scale: scale}
	var other *dev
	for _, c := range []struct {
		of         **dev
		name, role string
	}{{&from.tenant, "attack", "submitter=" + attackGroup + "/**"}, {&from.reader, "none", "viewer=/bench/none/**"}, {&other, "other", "submitter=" + otherGroup + "/**"}} {
		var err error
		if *c.of, err = d.as(ctx, c.name, c.role); err != nil {
			return err
		}
	}
	quiet, open, err := submissions(ctx, other, n)
	if err = errors.Join(err, d.stopAll(ctx, open)); err != nil {
		return err
	}
	t.add(resultRow{
		name:   fmt.Sprintf("%s: a submission while nothing else happens, p95 of %d", store, n),
		drover: ms(percentile(quiet, 95)) + " (p50 " + ms(percentile(quiet, 50)) + ")",
	})
	for _, a := range attackList() {
		took, about, err := during(ctx, from, other, a, n)
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		p95, goal := percentile(took, 95), max(3*percentile(quiet, 95), 50*time.Millisecond)
		t.add(resultRow{
			name: "  while " + a.name + " (" + about + "); bare is the first row", drover: ms(p95) + " (p50 " + ms(percentile(took, 50)) + ")",
			bare: ms(percentile(quiet, 95)), ratio: ratio(p95, percentile(quiet, 95)) + " (p50 " + ratio(percentile(took, 50), percentile(quiet, 50)) + ")",
			goal: "<= 3 x, or 50 ms", met: p95 <= goal,
		})
	}
	return nil
}

// during measures n submissions during an attack, and describes the attack.
func during(ctx context.Context, from attackers, other *dev, attack attack, n int) ([]time.Duration, string, error) {
	a, err := attack.prepare(ctx, from)
	if err != nil {
		return nil, "", err
	}
	attacking, end := context.WithCancelCause(ctx)
	defer end(nil)
	var clients sync.WaitGroup
	for range a.clients {
		clients.Go(func() {
			for attacking.Err() == nil {
				a.read(attacking)
			}
		})
	}
	if err := a.hasBegun(ctx, from.admin); err != nil {
		return nil, "", err
	}
	evaluated, _, err := a.evaluated(ctx)
	if err != nil {
		return nil, "", err
	}
	before := a.reads.Load()
	took, open, err := submissions(ctx, other, n)
	about := a.about
	if a.clients > 0 {
		reads := a.reads.Load() - before
		about += fmt.Sprintf(", %d reads, %d refused", reads, a.refused.Load())
		if reads == 0 && err == nil {
			err = errors.New("the clients read nothing meanwhile")
		}
	}
	if a.tasks != nil && err == nil {
		now, all, readErr := a.evaluated(ctx)
		about += fmt.Sprintf(", %d evaluated meanwhile", now-evaluated)
		if err = readErr; err == nil && now == all {
			err = fmt.Errorf("all %d tasks were evaluated before the end", all)
		}
	}
	end(nil)
	clients.Wait()
	return took, about, errors.Join(err, from.admin.stopAll(ctx, append(a.runs, open...)))
}

// hasBegun waits for the first read.
func (a *underWay) hasBegun(ctx context.Context, d *dev) error {
	if a.clients == 0 {
		return nil
	}
	return d.until(ctx, func() (bool, error) { return a.reads.Load() > 0, nil })
}

func (a *underWay) evaluated(ctx context.Context) (evaluated, all int, err error) {
	if a.tasks == nil {
		return 0, 0, nil
	}
	return a.tasks(ctx)
}

// read makes one request.
func (a *underWay) read(ctx context.Context) {
	if a.each > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, a.each, errors.New("enough"))
		defer cancel()
	}
	body, err := a.client.get(ctx, a.path, a.accepts)
	if err != nil {
		if a.refused.Add(1) == 1 {
			fmt.Fprintf(os.Stderr, "  the first refused read: %v\n", err)
		}
		return
	}
	_, err = io.Copy(io.Discard, body)
	_ = body.Close()
	if err == nil || a.each > 0 {
		a.reads.Add(1)
	}
}

// submissions measures n submissions, one after the other, and returns the runs.
func submissions(ctx context.Context, d *dev, n int) (took []time.Duration, open []string, err error) {
	for range n {
		begin := time.Now()
		id, err := d.submit(ctx, "name: other\ngroup: "+otherGroup+"\ntasks: {t: {pool: "+idlePool+", steps: [{run: 'true'}]}}\n")
		if err != nil {
			return took, open, err
		}
		took, open = append(took, time.Since(begin)), append(open, id)
		if err := d.pause(ctx, 20*time.Millisecond); err != nil {
			return took, open, err
		}
	}
	return took, open, nil
}

// as returns a client with a new token that has a role.
func (d *dev) as(ctx context.Context, name, role string) (*dev, error) {
	of, pattern, _ := strings.Cut(role, "=")
	text, err := d.call(ctx, http.MethodPost, "/api/v1/tokens", jsonOf(map[string]any{
		"name": name, "bindings": []map[string]any{{"role": of, "groups": []string{pattern}}},
	}))
	if err != nil {
		return nil, err
	}
	var created api.NewToken
	if err := json.Unmarshal(text, &created); err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	return &dev{server: d.server, token: created.Token}, nil
}

// begun counts the tasks of the attacking runs with a name: those that have begun to
// wait, and all.
func (d *dev) begun(ctx context.Context, name string) (begun, all int, err error) {
	text, err := d.call(ctx, http.MethodGet, "/api/v1/runs?limit=100&phase=running&group="+url.QueryEscape(attackGroup), "")
	if err != nil {
		return 0, 0, err
	}
	var page api.RunPage
	if err := json.Unmarshal(text, &page); err != nil {
		return 0, 0, fmt.Errorf("read the runs: %w", err)
	}
	for _, r := range page.Runs {
		if r.Name != name {
			continue
		}
		if n := r.TaskCounts["failed"]; n > 0 {
			return 0, 0, fmt.Errorf("%d tasks of the run %s have failed", n, r.ID)
		}
		for status, n := range r.TaskCounts {
			if all += n; status != "not_started" {
				begun += n
			}
		}
	}
	return begun, all, nil
}

// until waits for a condition.
func (d *dev) until(ctx context.Context, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, attackPrepares, errors.New("waited too long"))
	defer cancel()
	for {
		ok, err := holds()
		if ok || err != nil {
			return err
		}
		if err := d.pause(ctx, 100*time.Millisecond); err != nil {
			return context.Cause(ctx)
		}
	}
}

// stopAll stops runs, and waits until those that had begun have ended.
func (d *dev) stopAll(ctx context.Context, runs []string) error {
	stopped := make([]bool, len(runs))
	var next atomic.Int64
	if _, err := many(len(runs), 8, func() error {
		i := next.Add(1) - 1
		if d.post(ctx, runs[i]+"/cancel") == nil {
			return nil
		}
		stopped[i] = true
		return d.post(ctx, runs[i]+"/stop")
	}); err != nil {
		return err
	}
	for i, id := range runs {
		if !stopped[i] {
			continue
		}
		if _, err := d.await(ctx, id); err != nil {
			return err
		}
	}
	return nil
}
