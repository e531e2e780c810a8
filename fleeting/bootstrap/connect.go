package bootstrap

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/crypto/ssh"

	"github.com/drover-run/drover/fleeting"
)

const (
	sshPort = 22
	// attemptTimeout bounds one attempt to connect: a machine that is starting
	// drops packets, and the kernel would retry for minutes.
	attemptTimeout = 20 * time.Second
	// The defaults of fleeting, for plugins that set no value.
	connectTimeout = 10 * time.Minute
	keepalive      = 30 * time.Second
)

var errConnectionClosed = errors.New("the connection has ended")

// connection is an SSH connection to a host.
type connection struct {
	client   *ssh.Client
	instance string
	host     string // address and port
	detach   func() bool
	done     chan struct{}
	once     sync.Once
	alive    sync.WaitGroup
}

// connect retries until the connector's timeout, unless the error is permanent.
func (s *SSH) connect(ctx context.Context, t Target, r *Result) (*connection, error) {
	fault := &Error{Step: StepConnect, Instance: t.Connect.ID, Reason: ReasonUnsupported}
	if p := t.Connect.Protocol; p != "" && p != "ssh" {
		fault.Err = fmt.Errorf("only ssh is supported, not %s", p)
		return nil, fault
	}
	if fault.Host = addressOf(t.Connect, s.o.UseExternalAddr); fault.Host == "" {
		fault.Err = errors.New("the plugin returned no address")
		return nil, fault
	}
	auth, err := authOf(t.Connect)
	if err != nil {
		fault.Reason, fault.Err = ReasonAuth, err
		return nil, fault
	}
	timeout := cmp.Or(t.Connect.Timeout, connectTimeout)
	operation := func() (*ssh.Client, error) {
		client, err := s.attempt(ctx, t, fault, auth, r)
		if err != nil && (fault.Reason != ReasonUnreachable || ctx.Err() != nil) {
			return nil, backoff.Permanent(err)
		}
		return client, err
	}
	client, err := backoff.Retry(ctx, operation, backoff.WithBackOff(backoff.NewConstantBackOff(s.o.Interval)),
		backoff.WithMaxElapsedTime(timeout), backoff.WithNotify(func(err error, _ time.Duration) {
			s.o.Logger.DebugContext(ctx, "failed to connect to an instance, retrying", "instance_id", t.Connect.ID, "error", err)
		}))
	if err != nil {
		if fault.Err = err; fault.Reason == ReasonUnreachable {
			fault.Err = fmt.Errorf("no connection within %s: %w", timeout, err)
		}
		return nil, fault
	}
	c := &connection{client: client, instance: t.Connect.ID, host: fault.Host, done: make(chan struct{})}
	c.detach = context.AfterFunc(ctx, func() { _ = client.Close() })
	c.alive.Go(func() { c.keepAlive(cmp.Or(t.Connect.Keepalive, keepalive)) })
	return c, nil
}

// attempt connects once. It sets the reason of a failure.
func (s *SSH) attempt(ctx context.Context, t Target, fault *Error, auth []ssh.AuthMethod, r *Result) (*ssh.Client, error) {
	fault.Reason = ReasonUnreachable
	if !t.Connect.Expires.IsZero() && !time.Now().Before(t.Connect.Expires) {
		fault.Reason = ReasonExpired
		return nil, fmt.Errorf("the plugin's connect info expired at %s", t.Connect.Expires.UTC().Format(time.RFC3339))
	}
	held, err := s.o.HostKeys.check(fault.Host, t.HostKey)
	if err != nil {
		fault.Reason = ReasonLocal
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, attemptTimeout, errors.New("the host did not answer"))
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", fault.Host)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	trusted := false
	secured, channels, requests, err := ssh.NewClientConn(conn, fault.Host, &ssh.ClientConfig{
		User: cmp.Or(t.Connect.Username, "root"), Auth: auth, HostKeyAlgorithms: held.algorithms, ClientVersion: "SSH-2.0-Drover",
		HostKeyCallback: func(name string, remote net.Addr, key ssh.PublicKey) error {
			if err := held.callback(name, remote, key); err != nil {
				fault.Reason = ReasonHostKey
				return err
			}
			if err := storeHostKey(ctx, t, key, r); err != nil {
				fault.Reason = ReasonLocal
				return err
			}
			trusted = true
			return nil
		},
	})
	if !stop() && err == nil {
		err = errors.Join(context.Cause(ctx), secured.Close())
	}
	if err != nil {
		_ = conn.Close()
		if trusted && !connectionLost(err) {
			fault.Reason = ReasonAuth
		} else if strings.Contains(err.Error(), "no common algorithm for host key") { // the host has no key of the known type
			fault.Reason = ReasonHostKey
		}
		return nil, err
	}
	return ssh.NewClient(secured, channels, requests), nil
}

// storeHostKey stores the key of a new host.
func storeHostKey(ctx context.Context, t Target, key ssh.PublicKey, r *Result) error {
	r.HostKey = string(bytes.TrimSpace(ssh.MarshalAuthorizedKey(key)))
	if t.StoreHostKey == nil || t.HostKey == r.HostKey {
		return nil
	}
	if err := t.StoreHostKey(ctx, r.HostKey); err != nil {
		return fmt.Errorf("store the host's key: %w", err)
	}
	return nil
}

// connectionLost reports whether the connection broke, as opposed to a refusal by the
// host.
func connectionLost(err error) bool {
	var network net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &network)
}

// addressOf returns the address and port of an instance, or "" if it has no
// address. An address may include a port.
func addressOf(c fleeting.ConnectInfo, external bool) string {
	address := c.InternalAddr
	if external && c.ExternalAddr != "" || address == "" {
		address = c.ExternalAddr
	}
	if address == "" {
		return ""
	}
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address
	}
	return net.JoinHostPort(strings.Trim(address, "[]"), strconv.Itoa(cmp.Or(c.ProtocolPort, sshPort)))
}

// authOf returns the authentication methods: the private key, and the password.
func authOf(c fleeting.ConnectInfo) ([]ssh.AuthMethod, error) {
	var methods []ssh.AuthMethod
	if len(c.Key) > 0 {
		signer, err := ssh.ParsePrivateKey(c.Key)
		if err != nil {
			return nil, fmt.Errorf("parse the private key: %w", err)
		}
		methods = append(methods, ssh.PublicKeys(signer))
	}
	if c.Password != "" {
		methods = append(methods, ssh.Password(c.Password), ssh.KeyboardInteractive(
			func(_, _ string, questions []string, _ []bool) ([]string, error) {
				answers := make([]string, len(questions))
				for i := range answers {
					answers[i] = c.Password
				}
				return answers, nil
			}))
	}
	if len(methods) == 0 {
		return nil, errors.New("the plugin returned neither a key nor a password")
	}
	return methods, nil
}

// keepAlive sends keepalive requests to the host, and closes the connection if
// the host does not answer: a machine that was deleted does not close it.
func (c *connection) keepAlive(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-c.done:
			return
		case <-ticker.C:
		}
		closeTimer := time.AfterFunc(every, func() { _ = c.client.Close() })
		_, _, err := c.client.SendRequest("keepalive@openssh.com", true, nil)
		if !closeTimer.Stop() || err != nil {
			_ = c.client.Close()
			return
		}
	}
}

func (c *connection) close() {
	c.once.Do(func() {
		c.detach()
		close(c.done)
		_ = c.client.Close()
		c.alive.Wait()
	})
}
