package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/internal/testenv"
)

// database is a new PostgreSQL database.
type database struct {
	admin *sql.DB
	name  string
	url   string
}

func createDatabase(ctx context.Context, server string) (*database, error) {
	address, err := url.Parse(server)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", postgresVariable, err)
	}
	admin, err := sql.Open("pgx", server)
	if err != nil {
		return nil, fmt.Errorf("open PostgreSQL: %w", err)
	}
	d := &database{admin: admin, name: "drover_bench_" + strconv.FormatInt(time.Now().UnixNano(), 36)}
	if _, err := admin.ExecContext(ctx, "CREATE DATABASE "+d.name); err != nil {
		return nil, fmt.Errorf("create a database: %w", errors.Join(err, admin.Close()))
	}
	address.Path = "/" + d.name
	d.url = address.String()
	return d, nil
}

// drop drops the database, on a best-effort basis.
func (d *database) drop() {
	_, _ = d.admin.Exec("DROP DATABASE " + d.name + " WITH (FORCE)")
	_ = d.admin.Close()
}

// attacksOnPostgres measures attacks on Drover in several processes, with records in
// PostgreSQL.
func attacksOnPostgres(ctx context.Context, d *dev, t *table, n, scale int) error {
	server := os.Getenv(postgresVariable)
	if server == "" {
		var err error
		if server, err = testenv.Postgres(); err != nil {
			fmt.Fprintf(os.Stderr, "  skipped: %v\n", err)
			return nil
		}
	}
	db, err := createDatabase(ctx, server)
	if err != nil {
		return err
	}
	defer db.drop()
	parts, err := startParts(ctx, d.cmd.Path, db.url)
	if err != nil {
		return err
	}
	defer parts.stop()
	return attacks(ctx, parts, t, n, scale, "PostgreSQL")
}

// startParts starts a Temporal server, a gateway, a control worker and an executor.
func startParts(ctx context.Context, binary, records string) (d *dev, failed error) {
	d = &dev{ended: map[string]chan time.Time{}, endedEarly: map[string]time.Time{}}
	defer func() {
		if failed != nil {
			d.stop()
		}
	}()
	var err error
	if d.dir, err = os.MkdirTemp("", "drover-bench-parts-"); err != nil {
		return d, fmt.Errorf("create a directory: %w", err)
	}
	address, err := freeAddress(ctx)
	if err != nil {
		return d, err
	}
	if d.temporal, err = freeAddress(ctx); err != nil {
		return d, err
	}
	if d.token, err = newToken(ctx, binary, d.dir, "admin"); err != nil {
		return d, err
	}
	if _, err = newToken(ctx, binary, d.dir, "executor"); err != nil {
		return d, err
	}
	d.server = "http://" + address
	shared := []string{
		"DROVER_LOG__LEVEL=warn", "DROVER_TEMPORAL__ADDRESS=" + d.temporal, "DROVER_BLOBS__URL=file://" + filepath.Join(d.dir, "blobs"),
		"DROVER_RECORDS__DRIVER=postgres", "DROVER_RECORDS__DSN=" + records,
	}
	for _, part := range []struct {
		env, args []string
	}{
		{nil, []string{"start", "temporal", "--data-dir", filepath.Join(d.dir, "temporal"), "--temporal", d.temporal, "--temporal-ui", ""}},
		{append(shared, "DROVER_GATEWAY__TOKEN_FILE="+tokenFile(d.dir)), []string{"start", "gateway", "--listen", address}},
		{shared, []string{"start", "control"}},
		{[]string{
			"DROVER_LOG__LEVEL=warn", "DROVER_TEMPORAL__ADDRESS=" + d.temporal, "DROVER_EXECUTOR__DRIVER=shell", "DROVER_EXECUTOR__POOL=shell", "DROVER_EXECUTOR__SLOTS=2",
			"DROVER_EXECUTOR__STATE_DIR=" + filepath.Join(d.dir, "executor"), "DROVER_EXECUTOR__GATEWAY_URL=" + d.server,
			"DROVER_EXECUTOR__TOKEN_FILE=" + filepath.Join(d.dir, "executor.token"), "DROVER_EXECUTOR__RESOURCES__MEMORY=64Gi",
		}, []string{"start", "executor"}},
	} {
		cmd, err := launch(ctx, binary, part.env, part.args...)
		if err != nil {
			return d, fmt.Errorf("%s: %w", part.args[1], err)
		}
		d.others = append([]*exec.Cmd{cmd}, d.others...) // the last one ends first
	}
	if err := d.followAll(ctx); err != nil {
		return d, err
	}
	return d, d.until(ctx, func() (bool, error) { // its pool exists
		body, err := d.get(ctx, "/api/v1/executors", "application/json")
		if err != nil {
			return false, err
		}
		defer func() { _ = body.Close() }()
		text, err := io.ReadAll(body)
		return strings.Contains(string(text), `"online"`), err
	})
}

func tokenFile(dir string) string { return filepath.Join(dir, "tokens.yaml") }

// newToken creates a token whose name is its scope.
func newToken(ctx context.Context, binary, dir, scope string) (string, error) {
	file := filepath.Join(dir, scope+".token")
	out, err := exec.CommandContext(ctx, binary, "tokens", "create", "--name", scope, "--scopes", scope, "--file", tokenFile(dir), "--out", file).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("create a token: %w: %s", err, out)
	}
	token, err := os.ReadFile(file)
	return strings.TrimSpace(string(token)), err
}
