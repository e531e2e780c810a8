package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
)

// postgresVariable names the environment variable with the URL of a PostgreSQL
// server on which the benchmark may create databases.
const postgresVariable = "DROVER_TEST_POSTGRES"

// pushed measures the delay from the time in an event, which is before its
// commit, to its arrival at a reader. Runs are submitted to one gateway, and
// their events are read at another or the same.
func pushed(ctx context.Context, from, to *dev, n int) ([]time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	group := "/bench/push-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	body, err := to.get(ctx, "/api/v1/events?group="+group, "text/event-stream")
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	arrived := make(chan time.Duration, 16*n)
	go func() {
		defer close(arrived)
		readLags(body, arrived)
	}()
	for range n {
		if _, err := from.submit(ctx, "name: push\ngroup: "+group+"\ntasks: {t: {steps: [{run: 'true'}]}}\n"); err != nil {
			return nil, err
		}
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // the pace of the measurement
	}
	var lags []time.Duration
	for len(lags) < n {
		select {
		case lag, more := <-arrived:
			if !more {
				return nil, errors.New("the event stream ended early")
			}
			lags = append(lags, lag)
		case <-time.After(time.Minute):
			return nil, fmt.Errorf("received %d events, want at least %d", len(lags), n)
		}
	}
	for len(arrived) > 0 {
		lags = append(lags, <-arrived)
	}
	return lags, nil
}

func readLags(body io.Reader, arrived chan<- time.Duration) {
	scanner := bufio.NewScanner(body)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		data, ok := strings.CutPrefix(scanner.Text(), "data: ")
		if !ok {
			continue
		}
		var e api.Event
		if json.Unmarshal([]byte(data), &e) == nil && !e.Time.IsZero() {
			arrived <- time.Since(e.Time)
		}
	}
}

// pushes measures event delays in one process, and across two gateways on
// PostgreSQL.
func pushes(ctx context.Context, d *dev, t *table, n int) error {
	lags, err := pushed(ctx, d, d, n)
	if err != nil {
		return err
	}
	t.add(pushLine("an event to its reader, one process", lags, 50*time.Millisecond))
	if err := hangingReceivers(ctx, d, t, n); err != nil {
		return err
	}
	server := os.Getenv(postgresVariable)
	if server == "" {
		fmt.Fprintf(os.Stderr, "  two gateways on PostgreSQL: skipped, %s is not set\n", postgresVariable)
		return nil
	}
	pair, err := startPair(ctx, d.cmd.Path, server)
	if err != nil {
		return err
	}
	defer pair.stop()
	if lags, err = pushed(ctx, pair.gateways[0], pair.gateways[1], n); err != nil {
		return err
	}
	t.add(pushLine("an event to its reader, two gateways on PostgreSQL", lags, 250*time.Millisecond))
	return nil
}

func pushLine(name string, lags []time.Duration, goal time.Duration) resultRow {
	return resultRow{
		name: name + ", p95", drover: fmt.Sprintf("%s (p50 %s)", ms(percentile(lags, 95)), ms(percentile(lags, 50))),
		goal: "<= " + ms(goal), met: percentile(lags, 95) <= goal,
	}
}

// hangingReceivers measures the same beside the maximum number of webhooks, none
// of whose receivers answers.
func hangingReceivers(ctx context.Context, d *dev, t *table, n int) error {
	gone := make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-gone:
		}
	}))
	defer receiver.Close()
	defer close(gone)
	for i := range run.MaxWebhooks {
		if err := d.change(ctx, http.MethodPut, "/api/v1/webhooks/bench-"+strconv.Itoa(i),
			`{"url": "`+receiver.URL+`", "secret": "0123456789abcdef"}`); err != nil {
			return err
		}
	}
	lags, err := pushed(ctx, d, d, n)
	for i := range run.MaxWebhooks {
		err = errors.Join(err, d.change(ctx, http.MethodDelete, "/api/v1/webhooks/bench-"+strconv.Itoa(i), ""))
	}
	if err != nil {
		return err
	}
	t.add(pushLine("  the same beside 100 webhooks whose receivers hang", lags, 50*time.Millisecond))
	return nil
}

// change makes a call whose response body does not matter.
func (d *dev) change(ctx context.Context, method, path, body string) error {
	req, err := http.NewRequestWithContext(ctx, method, d.server+path, strings.NewReader(body))
	if err != nil {
		return fmt.Errorf("create a request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+d.token)
	resp, err := benchClient.Do(req)
	if err != nil {
		return fmt.Errorf("call %s: %w", path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("call %s: %s %s %w", path, resp.Status, answer, err)
	}
	return nil
}

// pair is two gateways on a new database. Submitting runs and reading events
// need nothing else.
type pair struct {
	gateways [2]*dev
	database *database
	dir      string
}

func startPair(ctx context.Context, binary, server string) (*pair, error) {
	db, err := createDatabase(ctx, server)
	if err != nil {
		return nil, err
	}
	p := &pair{database: db}
	if p.dir, err = os.MkdirTemp("", "drover-bench-pair-"); err != nil {
		p.stop()
		return nil, fmt.Errorf("create a directory: %w", err)
	}
	for i := range p.gateways {
		if p.gateways[i], err = startGateway(ctx, binary, db.url, p.dir); err != nil {
			p.stop()
			return nil, err
		}
	}
	// The pool of the runs must exist.
	records, err := sql.Open("pgx", db.url)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	defer func() { _ = records.Close() }()
	if _, err := records.ExecContext(ctx, `INSERT INTO pools (name, driver, os, arch, labels, privileged, is_default)
		VALUES ('shell', 'shell', 'linux', 'amd64', '{}', FALSE, FALSE)`); err != nil {
		return nil, fmt.Errorf("create a pool: %w", err)
	}
	return p, nil
}

func startGateway(ctx context.Context, binary, dsn, dir string) (*dev, error) {
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	d := &dev{dir: dir, server: "http://" + address}
	d.cmd = exec.CommandContext(ctx, binary, "start", "gateway", "--listen", address)
	d.cmd.Cancel = func() error { return d.cmd.Process.Signal(syscall.SIGTERM) }
	d.cmd.Env = append(os.Environ(), "DROVER_RECORDS__DRIVER=postgres", "DROVER_RECORDS__DSN="+dsn, "DROVER_LOG__LEVEL=error",
		"DROVER_BLOBS__URL=file://"+filepath.Join(dir, "blobs"), "DROVER_TEMPORAL__ADDRESS=127.0.0.1:1")
	d.cmd.Stderr = os.Stderr
	if err := d.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a gateway: %w", err)
	}
	for range 300 {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return d, conn.Close()
		}
		time.Sleep(100 * time.Millisecond) //nolint:forbidigo // it is starting
	}
	return nil, errors.New("the gateway did not start to listen")
}

func (p *pair) stop() {
	for _, g := range p.gateways {
		if g != nil {
			_ = g.cmd.Process.Signal(syscall.SIGTERM)
			_ = g.cmd.Wait()
		}
	}
	p.database.drop()
	_ = os.RemoveAll(p.dir)
}
