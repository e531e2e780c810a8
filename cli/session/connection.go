package session

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/internal/version"
	"github.com/drover-run/drover/run"
)

// defaultServer is the URL of the gateway if none is configured.
const defaultServer = "http://127.0.0.1:8080"

const serverUsage = "URL of the gateway (default: that of --context, DROVER_SERVER or the current context, or " + defaultServer + ")"

// Connection is the flags that select the gateway of a command.
type Connection struct {
	env       Env
	context   string
	server    string
	token     string
	tokenFile string
	caCert    string

	inputToken string // that was read from the standard input
}

// New returns a connection of commands with an environment. The flags are added by
// AddTo.
func New(env Env) *Connection { return &Connection{env: env} }

// AddTo adds the flags to a command and its subcommands.
func (c *Connection) AddTo(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.StringVar(&c.server, "server", "", serverUsage)
	flags.StringVar(&c.token, "token", "", "bearer token, which other users of the host can see (default: that of --token-file, --context, DROVER_TOKEN or the current context)")
	flags.StringVar(&c.tokenFile, "token-file", "", "file that contains the bearer token, - for standard input")
	flags.StringVar(&c.caCert, "ca-cert", "", "file with the certificates of authorities to trust besides those of the system")
	c.addContextTo(cmd)
}

func (c *Connection) addContextTo(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&c.context, "context", "", "name of the context to use, instead of the current one (see drover context)")
	_ = cmd.RegisterFlagCompletionFunc("context", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		all, _ := ReadContexts(c.env)
		return all.Names(), cobra.ShellCompDirectiveNoFileComp
	})
}

// Open returns a client of the selected gateway. The token of a context is sent only
// to the server of that context.
func (c *Connection) Open() (*remote.Client, error) {
	known, err := c.selected()
	if err != nil {
		return nil, err
	}
	server := c.address(known)
	token, file, err := c.readToken(server, known)
	if err != nil {
		return nil, err
	}
	transport, err := c.transport(server, known)
	if err != nil {
		return nil, err
	}
	var source func(context.Context) (string, error)
	if file != "" && isLogin(token) {
		source = savedLogin{path: file, server: server, transport: transport, now: c.env.WithDefaults().Now}.token
	}
	return remote.New(remote.Options{
		Server: server, Token: token, TokenSource: source, Transport: transport, RetryTimeout: c.env.RetryTimeout,
		UserAgent: fmt.Sprintf("drover/%s", version.String()),
	})
}

// Transport returns the transport to a server and its identity provider, nil for the
// default one. caCert is as in Connect.
func Transport(env Env, server, caCert string) (http.RoundTripper, error) {
	return (&Connection{env: env, server: server, caCert: caCert}).transport(server, Context{})
}

// Connect returns a client of a server. caCert is the path of certificates of
// authorities, "" for none besides those of the system.
func Connect(env Env, server, token, caCert string) (*remote.Client, error) {
	c := &Connection{env: env, server: server, caCert: caCert}
	transport, err := c.transport(server, Context{})
	if err != nil {
		return nil, err
	}
	return remote.New(remote.Options{
		Server: server, Token: token, Transport: transport, RetryTimeout: env.RetryTimeout, UserAgent: fmt.Sprintf("drover/%s", version.String()),
	})
}

// readToken returns the token for a server, "" for none, and the file that has it, "" if
// none does.
func (c *Connection) readToken(server string, known Context) (token, file string, err error) {
	file = c.tokenFile
	if file == "" && sameServer(server, known.Server) && (c.context != "" || c.env.Variable(variableToken) == "") {
		file = known.TokenFile
	}
	token = c.token
	switch {
	case token != "" && c.tokenFile != "":
		return "", "", run.Errorf(run.CodeInvalid, "--token and --token-file exclude each other")
	case token != "":
		file = ""
	case file == "-":
		if c.inputToken == "" {
			if c.inputToken, err = ReadTokenInput(c.env); err != nil {
				return "", "", err
			}
		}
		token, file = c.inputToken, ""
	case file != "":
		data, err := os.ReadFile(file)
		if err != nil {
			return "", "", run.Errorf(run.CodeUnauthenticated, "read the token of %s: %w", server, err)
		}
		token = strings.TrimSpace(string(data))
	default:
		token = c.env.Variable(variableToken)
	}
	if strings.ContainsAny(token, "\r\n\x00") {
		return "", "", run.Errorf(run.CodeInvalid, "the token contains a line break")
	}
	return token, file, nil
}

// ReadTokenInput reads a token from the first line of the standard input.
func ReadTokenInput(env Env) (string, error) {
	in, err := env.TakeStdin("the token")
	if err != nil {
		return "", err
	}
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", run.Errorf(run.CodeInvalid, "read the token from standard input: %w", err)
	}
	if line = strings.TrimSpace(line); line == "" {
		return "", run.Errorf(run.CodeInvalid, "the token is empty: pass it on the standard input, or in a file with --token-file")
	}
	return line, nil
}

// transport returns the transport for a server, nil for the default one.
func (c *Connection) transport(server string, known Context) (http.RoundTripper, error) {
	file := c.caCert
	if file == "" && sameServer(server, known.Server) {
		file = known.CACert
	}
	if file == "" || c.env.Transport != nil {
		return c.env.Transport, nil
	}
	certificates, err := os.ReadFile(file)
	if err != nil {
		return nil, run.Errorf(run.CodeInvalid, "read the certificates of authorities: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(certificates) {
		return nil, run.Errorf(run.CodeInvalid, "%s has no certificate in PEM form", file)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // net/http says so
	transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return transport, nil
}

// AddServerTo adds only the flags for the gateway.
func (c *Connection) AddServerTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.server, "server", "", serverUsage)
	c.addContextTo(cmd)
}

// Address returns the URL of the selected gateway.
func (c *Connection) Address() (string, error) {
	known, err := c.selected()
	return c.address(known), err
}

// selected returns the context that the flags select.
func (c *Connection) selected() (Context, error) {
	all, err := ReadContexts(c.env)
	if err != nil {
		return Context{}, err
	}
	return all.Find(c.context)
}

// address returns the URL of the selected gateway.
func (c *Connection) address(known Context) string {
	if c.context != "" {
		return cmp.Or(c.server, known.Server)
	}
	return cmp.Or(c.server, c.env.Variable(variableServer), known.Server, defaultServer)
}

func sameServer(a, b string) bool { return serverKey(a) == serverKey(b) }
