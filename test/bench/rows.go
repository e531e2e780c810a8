package main

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// row is one measurement.
type row struct {
	name    string
	measure func(ctx context.Context, d *dev, b *bare, t *table) error
}

const oneTask = "name: noop\ngroup: /bench/one\ntasks: {t: {steps: [{run: 'true'}]}}\n"

func fan(n int) string {
	return fmt.Sprintf("name: fan\ngroup: /bench/fan\ntasks:\n  t: {matrix: {N: [%s]}, steps: [{run: 'true'}]}\n", numbers(n))
}

func fanJoin(n int) string {
	return fmt.Sprintf("name: fan-join\ngroup: /bench/join\ntasks:\n"+
		"  first: {steps: [{run: 'true'}]}\n"+
		"  t: {depends: [first], matrix: {N: [%s]}, steps: [{run: 'true'}]}\n"+
		"  join: {depends: [t], steps: [{run: 'true'}]}\n", numbers(n))
}

func numbers(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = strconv.Quote(strconv.Itoa(i))
	}
	return strings.Join(list, ",")
}

func rows(scale int) []row {
	return []row{
		{"one no-op task, submit to finished", func(ctx context.Context, d *dev, b *bare, t *table) error {
			return latency(ctx, d, b, t, 200/scale)
		}},
		{"runs of one task, 8 clients", func(ctx context.Context, d *dev, b *bare, t *table) error {
			return throughput(ctx, d, b, t, 1000/scale)
		}},
		{"1 + 100 + 1", func(ctx context.Context, d *dev, b *bare, t *table) error {
			return joined(ctx, d, b, t, max(1, 5/scale))
		}},
		{"one run of 1,000 and of 10,000 tasks", func(ctx context.Context, d *dev, b *bare, t *table) error {
			return large(ctx, d, b, t, 1000/scale)
		}},
		{"tasks of a list", func(ctx context.Context, d *dev, _ *bare, t *table) error { return ofList(ctx, d, t, 5000/scale) }},
		{"a line to the follower", func(ctx context.Context, d *dev, _ *bare, t *table) error { return follower(ctx, d, t, 200/scale) }},
		{"an event to its reader", func(ctx context.Context, d *dev, _ *bare, t *table) error { return pushes(ctx, d, t, 200/scale) }},
		{"runs through change groups", func(ctx context.Context, d *dev, _ *bare, t *table) error {
			return throughGroups(ctx, d, t, 1000/scale)
		}},
		{"a hot change group", func(ctx context.Context, d *dev, _ *bare, t *table) error {
			idle := time.Minute
			if scale > 1 {
				idle = 0
			}
			return hot(ctx, d, t, 5000/scale, idle)
		}},
		{"attacks of another tenant on SQLite", func(ctx context.Context, d *dev, _ *bare, t *table) error {
			return attacks(ctx, d, t, 200/scale, scale, "SQLite")
		}},
		{"attacks of another tenant on PostgreSQL", func(ctx context.Context, d *dev, _ *bare, t *table) error {
			return attacksOnPostgres(ctx, d, t, 200/scale, scale)
		}},
		{"workspaces", func(ctx context.Context, d *dev, _ *bare, t *table) error {
			return archives(ctx, d, t, treeFiles/scale)
		}},
		{"reaction of a fleet", func(ctx context.Context, d *dev, _ *bare, t *table) error {
			return reaction(ctx, d, t, max(3, 30/scale))
		}},
		{"docker task", func(ctx context.Context, d *dev, _ *bare, t *table) error {
			return container(ctx, d, t, max(3, 20/scale))
		}},
	}
}

func latency(ctx context.Context, d *dev, b *bare, t *table, n int) error {
	var ours, bares []time.Duration
	usage := d.usage()
	for range n {
		_, took, err := d.run(ctx, oneTask)
		if err != nil {
			return err
		}
		ours = append(ours, took)
	}
	usage = d.usage().since(usage)
	for range n {
		took, err := b.run(ctx, 1)
		if err != nil {
			return err
		}
		bares = append(bares, took)
	}
	t.add(resultRow{
		name: fmt.Sprintf("one no-op task, submit to finished, p50 of %d", n), drover: ms(percentile(ours, 50)), bare: ms(percentile(bares, 50)),
		ratio: ratio(percentile(ours, 50), percentile(bares, 50)), goal: "<= 3 x", met: percentile(ours, 50) <= 3*percentile(bares, 50),
		usage: usage, tasks: n,
	})
	t.add(resultRow{name: "  the same, p95", drover: ms(percentile(ours, 95)), bare: ms(percentile(bares, 95)), ratio: ratio(percentile(ours, 95), percentile(bares, 95))})
	return nil
}

func throughput(ctx context.Context, d *dev, b *bare, t *table, n int) error {
	const clients = 8
	usage := d.usage()
	ours, err := many(n, clients, func() error {
		_, _, err := d.run(ctx, oneTask)
		return err
	})
	if err != nil {
		return err
	}
	usage = d.usage().since(usage)
	bares, err := many(n, clients, func() error {
		_, err := b.run(ctx, 1)
		return err
	})
	if err != nil {
		return err
	}
	rate := func(took time.Duration) float64 { return float64(n) / took.Seconds() }
	t.add(resultRow{
		name: fmt.Sprintf("%d runs of one task, 8 clients", n), drover: fmt.Sprintf("%.1f/s", rate(ours)), bare: fmt.Sprintf("%.1f/s", rate(bares)),
		ratio: fmt.Sprintf("%.2f x", rate(ours)/rate(bares)), goal: ">= 0.55 x", met: rate(ours) >= 0.55*rate(bares), usage: usage, tasks: n,
	})
	return nil
}

func joined(ctx context.Context, d *dev, b *bare, t *table, n int) error {
	var ours, bares, joins []time.Duration
	usage := d.usage()
	for range n {
		id, took, err := d.run(ctx, fanJoin(100))
		if err != nil {
			return err
		}
		ours = append(ours, took)
		r, err := d.read(ctx, id)
		if err != nil {
			return err
		}
		var last time.Time
		for name, task := range r.Tasks {
			if name != "join" && task.EndedAt.After(last) {
				last = task.EndedAt
			}
		}
		joins = append(joins, r.Tasks["join"].StartedAt.Sub(last))
	}
	usage = d.usage().since(usage)
	for range n {
		took, err := b.run(ctx, 100)
		if err != nil {
			return err
		}
		bares = append(bares, took)
	}
	t.add(resultRow{
		name: "1 + 100 + 1 fan-out and join, p50", drover: ms(percentile(ours, 50)), bare: ms(percentile(bares, 50)),
		ratio: ratio(percentile(ours, 50), percentile(bares, 50)), goal: "<= 6 x", met: percentile(ours, 50) <= 6*percentile(bares, 50),
		usage: usage, tasks: n * 102,
	})
	t.add(resultRow{name: "  from the last branch's end to the join's start, p50", drover: ms(percentile(joins, 50)), goal: "<= 50 ms", met: percentile(joins, 50) <= 50*time.Millisecond})
	return nil
}

func large(ctx context.Context, d *dev, b *bare, t *table, n int) error {
	var perTask [2]time.Duration
	for i, size := range []int{n, 10 * n} {
		usage := d.usage()
		_, took, err := d.run(ctx, fan(size))
		if err != nil {
			return err
		}
		perTask[i] = took / time.Duration(size)
		l := resultRow{name: fmt.Sprintf("one run of %d tasks", size), drover: fmt.Sprintf("%.2f s", took.Seconds()), usage: d.usage().since(usage), tasks: size}
		if i == 0 {
			bares, err := b.run(ctx, size)
			if err != nil {
				return err
			}
			l.bare, l.ratio, l.goal, l.met = fmt.Sprintf("%.2f s", bares.Seconds()), ratio(took, bares), "<= 6 x", took <= 6*bares
		} else {
			l.ratio, l.goal = fmt.Sprintf("%.2f x a task", float64(perTask[1])/float64(perTask[0])), "<= 1.5 x a task of the row above"
			l.met = float64(perTask[1]) <= 1.5*float64(perTask[0])
		}
		t.add(l)
	}
	return nil
}

// ofList compares tasks created from a list at run time with as many tasks of a
// matrix: how long both take, and the CPU time of a task of each, which depends
// less on other work on the machine.
func ofList(ctx context.Context, d *dev, t *table, n int) error {
	usage := d.usage()
	_, known, err := d.run(ctx, fanJoin(n))
	if err != nil {
		return err
	}
	t.add(resultRow{
		name: fmt.Sprintf("1 + %d tasks of a matrix + 1", n), drover: fmt.Sprintf("%.2f s", known.Seconds()), usage: d.usage().since(usage), tasks: n,
	})
	usage = d.usage()
	_, took, err := d.run(ctx, fmt.Sprintf("name: list\ngroup: /bench/list\ntasks:\n"+
		"  first: {steps: [{run: 'echo \"items=[$(seq -s, 1 %d)]\" >> \"$DROVER_OUTPUT\"'}]}\n"+
		"  t: {depends: [first], foreach: '{{ output \"first\" \"items\" }}', steps: [{run: 'true'}]}\n"+
		"  join: {depends: [t], steps: [{run: 'true'}]}\n", n))
	if err != nil {
		return err
	}
	t.add(resultRow{
		name: fmt.Sprintf("1 + %d tasks of a list + 1; bare is with a matrix", n), drover: fmt.Sprintf("%.2f s", took.Seconds()),
		bare: fmt.Sprintf("%.2f s", known.Seconds()), ratio: ratio(took, known), goal: "<= 1.2 x", met: took <= known*12/10,
		usage: d.usage().since(usage), tasks: n,
	})
	return nil
}

// follower measures the time from the printing of a line, by the clock in the
// line, to its arrival at a client that follows the log.
func follower(ctx context.Context, d *dev, t *table, n int) error {
	id, err := d.submit(ctx, fmt.Sprintf("name: lines\ngroup: /bench/lines\ntasks: {t: {steps: [{run: 'i=0; while [ $i -lt %d ]; do date +%%s%%N; sleep 0.02; i=$((i+1)); done'}]}}\n", n))
	if err != nil {
		return err
	}
	body, err := d.get(ctx, "/api/v1/runs/"+id+"/tasks/t/logs?follow=true&step=0", "text/plain")
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	var lags []time.Duration
	scanner := bufio.NewScanner(body)
	for scanner.Scan() {
		at, err := strconv.ParseInt(strings.TrimSpace(scanner.Text()), 10, 64)
		if err != nil {
			return fmt.Errorf("read line %q: %w", scanner.Text(), err)
		}
		lags = append(lags, time.Since(time.Unix(0, at)))
	}
	if len(lags) != n {
		return fmt.Errorf("received %d lines of %d: %w", len(lags), n, scanner.Err())
	}
	t.add(resultRow{
		name: fmt.Sprintf("a line printed by a step, to the follower, p95 of %d", n), drover: ms(percentile(lags, 95)),
		goal: "<= 300 ms", met: percentile(lags, 95) <= 300*time.Millisecond,
	})
	return nil
}

const benchImage = "drover-example/busybox:local"

func dockerAvailable() bool { // the daemon answers, and the image is present
	return exec.Command("docker", "image", "inspect", benchImage).Run() == nil
}

// container compares a task with `docker run` of the same command, in turns.
func container(ctx context.Context, d *dev, t *table, n int) error {
	if !dockerAvailable() {
		t.add(resultRow{name: "docker task against docker run", drover: "skipped: no Docker, or no image (make busybox-image)"})
		return nil
	}
	spec := "name: container\ngroup: /bench/docker\ntasks: {t: {pool: docker, image: '" + benchImage + "', pull_policy: never, steps: [{run: 'true'}]}}\n"
	var ours, plain []time.Duration
	for range n {
		_, took, err := d.run(ctx, spec)
		if err != nil {
			return err
		}
		ours = append(ours, took)
		begin := time.Now()
		if out, err := exec.CommandContext(ctx, "docker", "run", "--rm", benchImage, "true").CombinedOutput(); err != nil {
			return fmt.Errorf("docker run: %w: %s", err, out)
		}
		plain = append(plain, time.Since(begin))
	}
	t.add(resultRow{
		name: fmt.Sprintf("docker task, image present, p50 of %d; bare is docker run", n), drover: ms(percentile(ours, 50)), bare: ms(percentile(plain, 50)),
		ratio: ratio(percentile(ours, 50), percentile(plain, 50)), goal: "<= 1.15 x", met: float64(percentile(ours, 50)) <= 1.15*float64(percentile(plain, 50)),
	})
	return nil
}

func percentile(d []time.Duration, p int) time.Duration {
	s := slices.Sorted(slices.Values(d))
	return s[min(len(s)-1, len(s)*p/100)]
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

func ratio(a, b time.Duration) string { return fmt.Sprintf("%.2f x", float64(a)/float64(b)) }
