package bootstrap_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/drover-run/drover/fleeting"
	"github.com/drover-run/drover/fleeting/bootstrap"
)

// fakeServer is an SSH server with behavior that sshd does not offer: it has
// its own users, and can stop answering.
type fakeServer struct {
	t        *testing.T
	listener net.Listener
	config   *ssh.ServerConfig
	silent   bool // no command ends, and no request is answered
	conns    sync.WaitGroup
}

func startServer(t *testing.T, config *ssh.ServerConfig, silent bool) *fakeServer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	signer, err := ssh.NewSignerFromKey(key)
	require.NoError(t, err)
	config.AddHostKey(signer)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &fakeServer{t: t, listener: l, config: config, silent: silent}
	s.conns.Go(s.serve)
	t.Cleanup(func() { _ = l.Close(); s.conns.Wait() })
	return s
}

func (s *fakeServer) serve() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.conns.Go(func() { s.answer(c) })
	}
}

func (s *fakeServer) answer(c net.Conn) {
	conn, channels, requests, err := ssh.NewServerConn(c, s.config)
	if err != nil {
		_ = c.Close()
		return
	}
	defer func() { _ = conn.Close() }()
	s.conns.Go(func() {
		for r := range requests {
			if !s.silent {
				_ = r.Reply(true, nil)
			}
		}
	})
	for next := range channels {
		channel, requests, err := next.Accept()
		if err != nil {
			return
		}
		s.conns.Go(func() {
			for r := range requests {
				_ = r.Reply(true, nil)
				if r.Type == "exec" && !s.silent { // neither a POSIX shell nor PowerShell
					_, _ = channel.Stderr().Write([]byte("no such command\n"))
					_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{9}))
					_ = channel.Close()
				}
			}
		})
	}
}

func (s *fakeServer) start(c fleeting.Connector) *bootstrap.Error {
	s.t.Helper()
	b, err := bootstrap.NewSSH(bootstrap.Options{
		Executor: bootstrap.Executor{Pool: "p", Driver: "shell", Slots: 1, Gateway: "g", Temporal: "t"}, Binaries: &bootstrap.Binaries{},
	})
	require.NoError(s.t, err)
	_, err = b.Start(s.t.Context(), bootstrap.Target{
		Connect: fleeting.ConnectInfo{Connector: c, ID: "i-1", ExternalAddr: s.listener.Addr().String()}, Executor: "i-1",
		Credential: func(context.Context) (string, error) { return "", errors.New("not reached") },
	})
	var fault *bootstrap.Error
	require.ErrorAs(s.t, err, &fault)
	return fault
}

func TestConnect_passwords(t *testing.T) {
	t.Parallel()
	password := rand.Text()
	refused := errors.New("wrong")
	for name, config := range map[string]*ssh.ServerConfig{
		"password": {PasswordCallback: func(c ssh.ConnMetadata, given []byte) (*ssh.Permissions, error) {
			if c.User() != "admin" || string(given) != password {
				return nil, refused
			}
			return &ssh.Permissions{}, nil
		}},
		"keyboard-interactive": {KeyboardInteractiveCallback: func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			answers, err := ask("", "", []string{"Password: "}, []bool{false})
			if err != nil || len(answers) != 1 || answers[0] != password {
				return nil, refused
			}
			return &ssh.Permissions{}, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, config, false)
			fault := s.start(fleeting.Connector{Username: "admin", Password: password})
			require.Equal(t, bootstrap.StepProbe, fault.Step, "authentication failed: %v", fault)
			require.Equal(t, bootstrap.ReasonUnsupported, fault.Reason)
			require.ErrorContains(t, fault, "neither a POSIX shell nor PowerShell")
			fault = s.start(fleeting.Connector{Username: "admin", Password: password + "x"})
			require.Equal(t, bootstrap.StepConnect, fault.Step)
			require.Equal(t, bootstrap.ReasonAuth, fault.Reason)
		})
	}
}

// A machine that was deleted does not close the connection: it stops answering.
func TestKeepalive(t *testing.T) {
	t.Parallel()
	s := startServer(t, &ssh.ServerConfig{NoClientAuth: true}, true)
	fault := s.start(fleeting.Connector{Username: "admin", Password: "any", Keepalive: 20 * time.Millisecond})
	require.Equal(t, bootstrap.StepProbe, fault.Step)
	require.Equal(t, bootstrap.ReasonLost, fault.Reason)
	require.True(t, fault.Retryable())
}

// A server that does not speak SSH is retried until the timeout, like a machine
// that is starting.
func TestConnect_no_server(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &fakeServer{t: t, listener: l}
	s.conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	})
	fault := s.start(fleeting.Connector{Username: "admin", Password: "any", Timeout: time.Millisecond})
	require.Equal(t, bootstrap.ReasonUnreachable, fault.Reason)
	require.NoError(t, l.Close())
	s.conns.Wait()
}
