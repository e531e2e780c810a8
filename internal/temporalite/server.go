// Package temporalite runs a Temporal server and its web UI inside this
// process, on a SQLite file, tuned for one small machine. It is for
// development and single-host installations; production dials a cluster.
//
// It is the only package that links the server, which takes minutes to build.
// Only commands and tests of whole processes may import it.
package temporalite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/config"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	sqliteschema "go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"

	"github.com/drover-run/drover/internal/durable"
)

// Options configure a Server. File, Address and Namespace are required.
type Options struct {
	File      string   // of the SQLite database; its directory must exist
	Address   string   // of the frontend, host:port; the host must be an IP address
	UI        string   // listen address of the web UI; "" for none
	UIHosts   []string // names of the web UI, besides loopback names and its address
	Namespace string   // created if it does not exist
	// Attributes are search attributes, registered with the namespace when it
	// is created.
	Attributes map[string]enumspb.IndexedValueType
	// Logger takes the server's warnings and errors; nil drops them.
	Logger *slog.Logger
}

// Server is an embedded server. Run it once.
type Server struct {
	options Options
	ready   chan struct{}
}

// New returns a server that is not started.
func New(options Options) *Server {
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{options: options, ready: make(chan struct{})}
}

// Ready is closed once the server answers calls of its namespace.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Run serves until ctx ends, and then stops the server. It returns early with an
// error if the server cannot start, for example because an address is in use or
// the file cannot be read.
func (s *Server) Run(ctx context.Context) error {
	frontend, err := net.ResolveTCPAddr("tcp", s.options.Address)
	if err != nil {
		return fmt.Errorf("resolve the temporal address: %w", err)
	}
	for _, address := range []string{s.options.Address, s.options.UI} {
		if err := checkFree(ctx, address); err != nil {
			return err
		}
	}
	cfg, hosts, err := newConfig(ctx, s.options.File, frontend)
	if err != nil {
		return err
	}
	if err := s.prepare(cfg); err != nil {
		return err
	}
	server, err := temporal.NewServer(
		temporal.WithConfig(cfg),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(hosts),
		temporal.WithLogger(logger{s.options.Logger}),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper {
			return authorization.NewNoopClaimMapper()
		}),
		temporal.WithDynamicConfigClient(tuning()),
	)
	if err != nil {
		return fmt.Errorf("create the temporal server: %w", err)
	}
	if err := server.Start(); err != nil {
		return fmt.Errorf("start the temporal server: %w", err)
	}
	defer func() { _ = server.Stop() }()
	if err := s.awaitNamespace(ctx); err != nil {
		return err
	}
	if s.options.UI != "" {
		stop, err := startUI(ctx, s.options)
		if err != nil {
			return err
		}
		defer stop()
	}
	close(s.ready)
	<-ctx.Done()
	return nil
}

// prepare creates the schema and the namespace in the database file. It creates
// the schema in a temporary file first, so that a kill leaves no incomplete
// database at the final path.
func (s *Server) prepare(cfg *config.Config) error {
	sql := cfg.Persistence.DataStores[sqliteplugin.PluginName].SQL
	if _, err := os.Stat(s.options.File); errors.Is(err, os.ErrNotExist) {
		draft := *sql
		// Without a write-ahead log, the renamed file contains the whole database.
		draft.ConnectAttributes = map[string]string{"mode": "rwc"}
		draft.DatabaseName = filepath.Join(filepath.Dir(s.options.File), ".temporal-new.db")
		for _, suffix := range []string{"", "-journal"} {
			_ = os.Remove(draft.DatabaseName + suffix)
		}
		if err := sqliteschema.SetupSchema(&draft); err != nil {
			return fmt.Errorf("create the temporal schema: %w", err)
		}
		if err := os.Rename(draft.DatabaseName, s.options.File); err != nil {
			return fmt.Errorf("create the temporal database: %w", err)
		}
		if err := durable.SyncDir(filepath.Dir(s.options.File)); err != nil {
			return fmt.Errorf("create the temporal database: %w", err)
		}
	}
	namespace, err := sqliteschema.NewNamespaceConfig(clusterName, s.options.Namespace, false, s.options.Attributes)
	if err != nil {
		return fmt.Errorf("describe the temporal namespace: %w", err)
	}
	if err := sqliteschema.CreateNamespaces(sql, namespace); err != nil {
		return fmt.Errorf("create the temporal namespace: %w", err)
	}
	return nil
}

// awaitNamespace waits until the frontend serves the namespace, which is a moment
// after Start returned.
func (s *Server) awaitNamespace(ctx context.Context) error {
	c, err := client.NewLazyClient(client.Options{
		HostPort: s.options.Address, Namespace: s.options.Namespace,
		Logger: discard{},
	})
	if err != nil {
		return fmt.Errorf("create a temporal client: %w", err)
	}
	defer c.Close()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errors.New("temporal did not answer in time"))
	defer cancel()
	for {
		if _, err := c.CheckHealth(ctx, nil); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the temporal server: %w", context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// startTimeout bounds the start; an idle machine needs about a second.
const startTimeout = 60 * time.Second

func checkFree(ctx context.Context, address string) error {
	if address == "" {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	return l.Close()
}
