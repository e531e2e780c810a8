package postgres

import (
	"context"
	"log/slog"
	"sync"

	"github.com/jackc/pgx/v5"
)

// connector has the configuration of new connections. It reads the connection
// string for each of them, and with it the files that the string names: passwords
// and certificates may be replaced while the process runs.
type connector struct {
	dsn    func() string
	logger *slog.Logger

	mu   sync.Mutex
	last *pgx.ConnConfig // that was valid
}

func newConnector(first *pgx.ConnConfig, dsn string, opts Options) *connector {
	c := &connector{last: first, dsn: opts.CurrentDSN, logger: opts.Logger}
	if c.dsn == nil {
		c.dsn = func() string { return dsn }
	}
	return c
}

// config returns the configuration of the next connection.
func (c *connector) config(ctx context.Context) *pgx.ConnConfig {
	c.mu.Lock()
	defer c.mu.Unlock()
	config, err := pgx.ParseConfig(c.dsn())
	switch {
	case err != nil: // the error may contain the password
		c.logger.WarnContext(ctx, "failed to read the connection string, or a file that it names, again; its previous content stays in use")
		return c.last.Copy()
	case config.Host != c.last.Host || config.Port != c.last.Port || config.Database != c.last.Database:
		// The store has checked the schema of one database only.
		c.logger.WarnContext(ctx, "ignored a connection string for another database; it takes effect when the process is started again")
		return c.last.Copy()
	}
	tune(config)
	c.last = config
	return config.Copy()
}

// refresh is called before each connection of the pool.
func (c *connector) refresh(ctx context.Context, config *pgx.ConnConfig) error {
	*config = *c.config(ctx)
	return nil
}
