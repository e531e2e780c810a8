package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/internal/version"
	"github.com/drover-run/drover/run"
)

// defaultServer is where a gateway listens that nobody configured.
const defaultServer = "http://127.0.0.1:8080"

// connection is the flags that say which gateway a command speaks to.
type connection struct {
	env    Env
	server string
	token  string
}

// addTo gives a command, and those below it, the flags.
func (c *connection) addTo(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.StringVar(&c.server, "server", "", "URL of the gateway (variable DROVER_SERVER; else that of drover dev, else "+defaultServer+")")
	flags.StringVar(&c.token, "token", "", "bearer token (variable DROVER_TOKEN, which other users of the host cannot see)")
}

// open returns a client of the gateway that is meant. A token of the context
// file goes to the server of the context file only.
func (c *connection) open() (*remote.Client, error) {
	known, err := readContext(ContextPath(c.env))
	if err != nil {
		return nil, err
	}
	server := firstOf(c.server, c.env.variable(variableServer), known.Server, defaultServer)
	token := firstOf(c.token, c.env.variable(variableToken))
	if token == "" && known.TokenFile != "" && sameServer(server, known.Server) {
		data, err := os.ReadFile(known.TokenFile)
		if err != nil {
			return nil, run.Errorf(run.CodeUnauthenticated, "reading the token of %s: %w", server, err)
		}
		token = strings.TrimSpace(string(data))
	}
	if strings.ContainsAny(token, "\r\n\x00") {
		return nil, run.Errorf(run.CodeInvalid, "the token has a line break in it")
	}
	return remote.New(remote.Options{
		Server: server, Token: token, Transport: c.env.Transport, Patience: c.env.Patience,
		UserAgent: fmt.Sprintf("drover/%s", version.String()),
	})
}

func sameServer(a, b string) bool { return strings.TrimRight(a, "/") == strings.TrimRight(b, "/") }

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
