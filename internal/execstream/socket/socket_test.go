package socket_test

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/test/bufconn"

	"github.com/drover-run/drover/internal/execstream"
	"github.com/drover-run/drover/internal/execstream/socket"
)

// chain are a client, its gateway and an executor, connected by WebSockets.
type chain struct {
	client  *socket.Conn
	command execstream.Conn // the end of the command
	status  chan *execstream.ExitStatus
}

func connect(t *testing.T) *chain {
	t.Helper()
	const buffer = 64 << 10
	listener := bufconn.Listen(buffer)
	atGateway, fromExecutor := execstream.Pipe()
	c := &chain{status: make(chan *execstream.ExitStatus, 1)}
	serve := func(copyMessages func(ctx context.Context, conn *socket.Conn)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			conn, err := socket.Accept(w, r)
			if err != nil {
				return
			}
			defer conn.Close()
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			go conn.KeepAlive(ctx)
			copyMessages(ctx, conn)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/client", serve(func(ctx context.Context, conn *socket.Conn) {
		status, _ := execstream.Copy(ctx, conn, atGateway, execstream.Callbacks{})
		c.status <- status
	}))
	mux.HandleFunc("/executor", serve(func(ctx context.Context, conn *socket.Conn) {
		_, _ = execstream.Copy(ctx, fromExecutor, conn, execstream.Callbacks{})
	}))
	server := &http.Server{Handler: mux}
	served := make(chan error)
	go func() { served <- server.Serve(listener) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return listener.DialContext(ctx) }}
	dial := func(path string) *socket.Conn {
		conn, _, err := socket.Dial(t.Context(), &http.Client{Transport: transport}, "http://gateway"+path, nil)
		require.NoError(t, err)
		return conn
	}
	executor := dial("/executor")
	near, far := execstream.Pipe()
	c.client, c.command = dial("/client"), far
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = execstream.Copy(t.Context(), executor, near, execstream.Callbacks{})
	}()
	t.Cleanup(func() {
		c.client.Close()
		c.command.Close()
		<-copied
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
		transport.CloseIdleConnections()
	})
	return c
}

// TestConn_slow_reader checks that a client that takes nothing for minutes, at first and
// after the end of the command, loses nothing.
func TestConn_slow_reader(t *testing.T) {
	t.Parallel()
	const messages = 40
	text := func(n int) []byte { return []byte(strconv.Itoa(n) + string(make([]byte, execstream.MaxData/2))) }
	synctest.Test(t, func(t *testing.T) {
		c := connect(t)
		go func() {
			for n := range messages {
				if c.command.Send(t.Context(), execstream.Message{Kind: execstream.Stdout, Data: text(n)}) != nil {
					return
				}
			}
			if exit, err := execstream.Encode(execstream.Exit, execstream.ExitStatus{Code: 7}); err == nil {
				_ = c.command.Send(t.Context(), exit)
			}
		}()
		for n := 0; n < messages; {
			if n%(messages/4) == 0 || n == messages-2 {
				<-time.After(10 * time.Minute) // nothing is taken
			}
			m, err := c.client.Receive(t.Context())
			require.NoError(t, err, n)
			require.Equal(t, execstream.Stdout, m.Kind)
			if len(m.Data) > 0 { // not to keep the connection alive
				require.Equal(t, text(n), m.Data)
				n++
			}
		}
		<-time.After(10 * time.Second)
		m, err := c.client.Receive(t.Context())
		require.NoError(t, err)
		require.Equal(t, execstream.Exit, m.Kind)
		c.client.Finish()
		require.Equal(t, &execstream.ExitStatus{Code: 7}, <-c.status)
	})
}

// TestConn_client_without_an_end checks that a client that was told the end and does not
// close the connection holds the session only for a while.
func TestConn_client_without_an_end(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := connect(t)
		exit, err := execstream.Encode(execstream.Exit, execstream.ExitStatus{Code: 7})
		require.NoError(t, err)
		require.NoError(t, c.command.Send(t.Context(), exit))
		require.Equal(t, &execstream.ExitStatus{Code: 7}, <-c.status)
	})
}
