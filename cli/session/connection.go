package session

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/internal/version"
	"github.com/drover-run/drover/run"
)

// defaultServer is the URL of the gateway if none is configured.
const defaultServer = "http://127.0.0.1:8080"

const serverUsage = "URL of the gateway (default: DROVER_SERVER, else that of drover dev, else " + defaultServer + ")"

// Connection is the flags that select the gateway of a command.
type Connection struct {
	env    Env
	server string
	token  string
}

// New returns a connection of commands with an environment. The flags are added by
// AddTo.
func New(env Env) *Connection { return &Connection{env: env} }

// AddTo adds the flags to a command and its subcommands.
func (c *Connection) AddTo(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.StringVar(&c.server, "server", "", serverUsage)
	flags.StringVar(&c.token, "token", "", "bearer token (default: DROVER_TOKEN, which other users of the host cannot see)")
}

// Open returns a client of the selected gateway. The token of the context file is
// sent only to the server of the context file.
func (c *Connection) Open() (*remote.Client, error) {
	known, err := readContext(ContextPath(c.env))
	if err != nil {
		return nil, err
	}
	server := c.address(known)
	token := cmp.Or(c.token, c.env.Variable(variableToken))
	if token == "" && known.TokenFile != "" && sameServer(server, known.Server) {
		data, err := os.ReadFile(known.TokenFile)
		if err != nil {
			return nil, run.Errorf(run.CodeUnauthenticated, "read the token of %s: %w", server, err)
		}
		token = strings.TrimSpace(string(data))
	}
	if strings.ContainsAny(token, "\r\n\x00") {
		return nil, run.Errorf(run.CodeInvalid, "the token contains a line break")
	}
	return remote.New(remote.Options{
		Server: server, Token: token, Transport: c.env.Transport, RetryTimeout: c.env.RetryTimeout,
		UserAgent: fmt.Sprintf("drover/%s", version.String()),
	})
}

// AddServerTo adds only the flag for the gateway.
func (c *Connection) AddServerTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.server, "server", "", serverUsage)
}

// Address returns the URL of the selected gateway.
func (c *Connection) Address() (string, error) {
	known, err := readContext(ContextPath(c.env))
	return c.address(known), err
}

// address returns the URL of the selected gateway.
func (c *Connection) address(known Context) string {
	return cmp.Or(c.server, c.env.Variable(variableServer), known.Server, defaultServer)
}

func sameServer(a, b string) bool { return serverKey(a) == serverKey(b) }
