package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/retry"
)

// throughGroups compares runs with change groups and runs without, in turns.
func throughGroups(ctx context.Context, d *dev, t *table, n int) error {
	const groups, clients, rounds = 100, 8, 4
	for i := range groups {
		if err := d.limit(ctx, fmt.Sprintf("bench-%d", i), 1); err != nil {
			return err
		}
	}
	var number atomic.Int64
	var took [2]time.Duration
	var used usage
	for range rounds {
		for i := range took {
			before := d.usage()
			part, err := many(n/rounds, clients, func() error {
				spec := oneTask
				if i == 1 {
					spec += fmt.Sprintf("changegroups: [bench-%d]\n", number.Add(1)%groups)
				}
				_, _, err := d.run(ctx, spec)
				return err
			})
			if err != nil {
				return err
			}
			took[i] += part
			if i == 1 {
				used = used.plus(d.usage().since(before))
			}
		}
	}
	rate := func(i int) float64 { return float64(n) / took[i].Seconds() }
	t.add(resultRow{
		name:   fmt.Sprintf("%d runs of one task through %d change groups, %d clients; bare is without groups", n, groups, clients),
		drover: fmt.Sprintf("%.1f/s", rate(1)), bare: fmt.Sprintf("%.1f/s", rate(0)), ratio: fmt.Sprintf("%.2f x", rate(1)/rate(0)),
		goal: ">= 0.7 x", met: rate(1) >= 0.7*rate(0), usage: used, tasks: n,
	})
	return nil
}

// hotGroup is the change group, and hotPath the group, of the runs of the row
// "a hot change group".
const (
	hotGroup = "bench-hot"
	hotPath  = "/bench/hot"
)

func hotRun(step string) string {
	return "name: hot\ngroup: " + hotPath + "\nchangegroups: [" + hotGroup + "]\ntasks: {t: {steps: [{run: '" + step + "'}]}}\n"
}

// hot queues n runs for one slot. It measures their CPU time while the process
// is idle, for the time idle unless that is 0, and the latencies of clients
// while the runs are admitted one after the other.
func hot(ctx context.Context, d *dev, t *table, n int, idle time.Duration) error {
	if err := d.limit(ctx, hotGroup, 1); err != nil {
		return err
	}
	before, err := d.idleCPU(ctx, idle)
	if err != nil {
		return err
	}
	holder, err := d.submit(ctx, hotRun("sleep 86400"))
	if err != nil {
		return err
	}
	took, err := many(n, 8, func() error {
		_, err := d.submit(ctx, hotRun("sleep 0.05"))
		return err
	})
	if err != nil {
		return err
	}
	t.add(resultRow{name: fmt.Sprintf("%d runs submitted to one busy change group, 8 clients", n), drover: fmt.Sprintf("%.1f/s", float64(n)/took.Seconds())})
	if err := d.awaitOutbox(ctx); err != nil {
		return err
	}
	after, err := d.idleCPU(ctx, idle)
	if err != nil {
		return err
	}
	if idle > 0 {
		t.add(resultRow{
			name:   fmt.Sprintf("CPU in %s with %d queued runs; bare is without them", idle, n),
			drover: ms(after), bare: ms(before), ratio: ratio(after, before), goal: "<= 1.5 x, or 1 % of a core", met: after <= before*3/2 || after <= idle/100,
		})
	}
	events, err := d.get(ctx, "/api/v1/events?group="+hotPath, "text/event-stream")
	if err != nil {
		return err
	}
	defer func() { _ = events.Close() }()
	handovers := make(chan time.Duration, 2*n)
	go readHandovers(events, handovers)
	if err := d.post(ctx, holder+"/stop"); err != nil {
		return err
	}
	gaps := []time.Duration{<-handovers} // the first run has begun
	if err := busyClients(ctx, d, t, n); err != nil {
		return err
	}
	for len(handovers) > 0 {
		gaps = append(gaps, <-handovers)
	}
	t.add(resultRow{
		name:   fmt.Sprintf("  from a run's end to the start of the next queued run, p50 of %d", len(gaps)),
		drover: ms(percentile(gaps, 50)), goal: "<= 50 ms", met: percentile(gaps, 50) <= 50*time.Millisecond,
	})
	t.add(resultRow{name: "  the same, p95", drover: ms(percentile(gaps, 95))})
	return d.drain(ctx)
}

// busyClients measures the latencies of clients of the group while its runs are
// admitted.
func busyClients(ctx context.Context, d *dev, t *table, n int) error {
	var reads, creates, cancels []time.Duration
	timed := func(list *[]time.Duration, do func() error) error {
		begin := time.Now()
		err := do()
		*list = append(*list, time.Since(begin))
		return err
	}
	for range max(20, n/25) {
		var group api.ChangeGroup
		var id string
		for _, err := range []error{
			timed(&reads, func() (err error) { group, err = d.changeGroup(ctx, hotGroup); return err }),
			timed(&creates, func() (err error) { id, err = d.submit(ctx, hotRun("sleep 0.05")); return err }),
			timed(&cancels, func() error { return d.post(ctx, id+"/cancel") }),
		} {
			if err != nil {
				return err
			}
		}
		if len(group.Queued) == 0 {
			return errors.New("the backlog is empty already")
		}
		if err := d.pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	for _, m := range []struct {
		what string
		took []time.Duration
	}{{"GET changegroup", reads}, {"create", creates}, {"cancel", cancels}} {
		t.add(resultRow{
			name:   fmt.Sprintf("  %s while they are admitted one by one, p95 of %d", m.what, len(m.took)),
			drover: ms(percentile(m.took, 95)), goal: "<= 100 ms", met: percentile(m.took, 95) <= 100*time.Millisecond,
		})
	}
	return nil
}

// readHandovers measures the time from each run's end to the start of the next,
// by the times of their events.
func readHandovers(events io.Reader, gaps chan<- time.Duration) {
	scanner := bufio.NewScanner(events)
	scanner.Buffer(nil, 1<<20)
	var ended time.Time
	for scanner.Scan() {
		data, ok := strings.CutPrefix(scanner.Text(), "data:")
		var e api.Event
		if !ok || json.Unmarshal([]byte(data), &e) != nil || e.Type != "run" {
			continue
		}
		switch {
		case e.Phase == "finished":
			ended = e.Time
		case e.Phase == "running" && !ended.IsZero():
			gaps <- e.Time.Sub(ended)
			ended = time.Time{}
		}
	}
}

// idleCPU returns the CPU time of the process during a span without requests; 0
// if span is 0.
func (d *dev) idleCPU(ctx context.Context, span time.Duration) (time.Duration, error) {
	if span == 0 {
		return 0, nil
	}
	const window, limit = 5 * time.Second, 5 * time.Minute
	// Earlier requests are still being processed: workflows begin, and wait.
	for waited := time.Duration(0); waited < limit; waited += window {
		before := d.usage()
		if err := d.pause(ctx, window); err != nil {
			return 0, err
		}
		if d.usage().since(before).cpu < window/20 {
			break
		}
	}
	before := d.usage()
	err := d.pause(ctx, span)
	return d.usage().since(before).cpu, err
}

func (d *dev) pause(ctx context.Context, span time.Duration) error {
	return retry.Sleep(ctx, span)
}

// awaitOutbox waits until the outbox is empty.
func (d *dev) awaitOutbox(ctx context.Context) error {
	for range 600 {
		body, err := d.get(ctx, "/metrics", "text/plain")
		if err != nil {
			return err
		}
		text, err := io.ReadAll(body)
		_ = body.Close()
		if err != nil {
			return fmt.Errorf("read the metrics: %w", err)
		}
		if strings.Contains(string(text), "\ndrover_outbox_rows 0\n") {
			return nil
		}
		if err := d.pause(ctx, time.Second); err != nil {
			return err
		}
	}
	return errors.New("the outbox did not become empty")
}

// drain cancels the queued runs of the hot group, and waits for the rest.
func (d *dev) drain(ctx context.Context) error {
	group, err := d.changeGroup(ctx, hotGroup)
	if err != nil {
		return err
	}
	var next atomic.Int64
	if _, err := many(len(group.Queued), 8, func() error {
		_ = d.post(ctx, group.Queued[next.Add(1)-1]+"/cancel") // the run may have begun
		return nil
	}); err != nil {
		return err
	}
	for len(group.Queued)+len(group.Running) > 0 {
		if err := d.pause(ctx, time.Second); err != nil {
			return err
		}
		if group, err = d.changeGroup(ctx, hotGroup); err != nil {
			return err
		}
	}
	return d.awaitOutbox(ctx)
}

func (d *dev) limit(ctx context.Context, group string, n int) error {
	_, err := d.call(ctx, http.MethodPut, "/api/v1/changegroups/"+group, fmt.Sprintf(`{"max_running": %d}`, n))
	return err
}

func (d *dev) changeGroup(ctx context.Context, name string) (api.ChangeGroup, error) {
	var g api.ChangeGroup
	text, err := d.call(ctx, http.MethodGet, "/api/v1/changegroups/"+name, "")
	if err == nil {
		err = json.Unmarshal(text, &g)
	}
	return g, err
}

func (d *dev) post(ctx context.Context, path string) error {
	_, err := d.call(ctx, http.MethodPost, "/api/v1/runs/"+path, "{}")
	return err
}

func (d *dev) call(ctx context.Context, method, path, body string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, d.server+path, strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("create a request: %w", err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Authorization", "Bearer "+d.token)
	resp, err := benchClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("call %s: %s %s", path, resp.Status, text)
	}
	return text, err
}
