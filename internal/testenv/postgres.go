package testenv

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
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/drover-run/drover/internal/freeport"
	"github.com/drover-run/drover/internal/retry"
)

// PostgresVariable names the environment variable with the connection URL of a
// PostgreSQL server on which tests may create databases.
const PostgresVariable = "DROVER_TEST_POSTGRES"

// RequirePostgres returns the connection URL of a new, empty database, which is
// dropped when the test ends. The server is the one that DROVER_TEST_POSTGRES
// names. Without that variable, RequirePostgres starts a server for this test
// process if PostgreSQL is installed. Otherwise the test is skipped, or fails if
// DROVER_REQUIRE names postgres.
func RequirePostgres(t testing.TB) string {
	t.Helper()
	Use(t, "postgres")
	server := os.Getenv(PostgresVariable)
	if server == "" {
		started, err := startPostgres()
		if errors.Is(err, errNoPostgres) {
			Missing(t, "postgres", "neither "+PostgresVariable+" is set nor is PostgreSQL installed",
				"install the package postgresql, or set "+PostgresVariable+" to the URL of a server")
		}
		if err != nil {
			t.Fatalf("start PostgreSQL: %v", err)
		}
		server = started.url()
	}
	base, err := url.Parse(server)
	if err != nil {
		t.Fatalf("%s is not a URL: %v", PostgresVariable, err)
	}
	admin, err := sql.Open("pgx", server)
	if err != nil {
		t.Fatalf("open %s: %v", base.Redacted(), err)
	}
	name := "drover_" + strings.ToLower(strconv.FormatInt(time.Now().UnixNano(), 36)) + strconv.Itoa(os.Getpid())
	if _, err := admin.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatalf("create a database at %s: %v", base.Redacted(), err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience(t))
		defer cancel()
		if _, err := admin.ExecContext(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Logf("failed to drop the database %s: %v", name, err)
		}
		if err := admin.Close(); err != nil {
			t.Logf("failed to close the connection to %s: %v", base.Redacted(), err)
		}
	})
	base.Path = "/" + name
	return base.String()
}

// Postgres returns the connection URL of an empty database, for programs that are
// not tests. It starts a server, for which PostgreSQL must be installed. The server
// ends with this process.
func Postgres() (string, error) {
	started, err := startPostgres()
	if err != nil {
		return "", err
	}
	return started.url(), nil
}

var errNoPostgres = errors.New("PostgreSQL is not installed")

// startPostgres starts, once, a server that ends with this process.
var startPostgres = sync.OnceValues(func() (*postgresServer, error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "drover-postgres-")
	if err != nil {
		return nil, err
	}
	server := &postgresServer{bin: bin, dir: dir}
	if err := server.start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return server, nil
})

// postgresBin returns the folder of the newest installed server's programs.
func postgresBin() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", errNoPostgres
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	slices.SortFunc(found, func(a, b string) int { return version(b) - version(a) })
	return filepath.Dir(found[0]), nil
}

// postgresServer is a server with its data in a temporary folder.
type postgresServer struct {
	bin       string
	dir       string
	port      int
	keepalive io.Closer // standard input of the watchdog, which ends the server when this is closed
}

func (s *postgresServer) url() string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", s.port)
}

// watchdog runs the server until its standard input is closed, which happens when
// the test process ends in any way. Then it removes the server's directory.
const watchdog = `"$1/postgres" -D "$2/data" -k "$2" -c listen_addresses=127.0.0.1 -c port="$3" ` +
	`-c fsync=off -c full_page_writes=off -c max_connections=400 -c shared_buffers=64MB >"$2/log" 2>&1 </dev/null & pid=$!
cat >/dev/null
kill -QUIT $pid
wait $pid
rm -rf "$2"`

func (s *postgresServer) start() error {
	initdb := exec.Command(filepath.Join(s.bin, "initdb"), "-D", filepath.Join(s.dir, "data"),
		"-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
	initdb.Dir = s.dir
	if err := s.detach(initdb); err != nil {
		return err
	}
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("create a database cluster: %w: %s", err, out)
	}
	port, err := freeport.On(context.Background(), "127.0.0.1")
	if err != nil {
		return err
	}
	s.port = port
	sh := exec.Command("/bin/sh", "-c", watchdog, "postgres", s.bin, s.dir, strconv.Itoa(s.port))
	sh.Dir = s.dir
	if err := s.detach(sh); err != nil {
		return err
	}
	if s.keepalive, err = sh.StdinPipe(); err != nil {
		return err
	}
	if err := sh.Start(); err != nil {
		return err
	}
	return s.await()
}

func (s *postgresServer) await() error {
	db, err := sql.Open("pgx", s.url())
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		if err = db.PingContext(ctx); err == nil {
			return nil
		}
		if retry.Sleep(ctx, 20*time.Millisecond) != nil {
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("the server does not answer: %w: %s", err, log)
		}
	}
}
