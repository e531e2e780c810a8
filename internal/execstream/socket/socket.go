// Package socket carries the messages of package execstream over WebSockets.
package socket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/drover-run/drover/internal/execstream"
)

// Protocol is the subprotocol: an end that does not support it fails the handshake.
const Protocol = "drover.exec.v1"

// keepAlivePeriod is the time between two messages that keep proxies from closing an
// idle connection.
const keepAlivePeriod = 20 * time.Second

// Conn is a connection. Send and Receive may be called at the same time.
type Conn struct {
	ws      *websocket.Conn
	sending atomic.Int32 // calls of Send
}

// Accept accepts a connection. It has answered the request if it fails.
func Accept(w http.ResponseWriter, r *http.Request) (*Conn, error) {
	c := &Conn{}
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols:       []string{Protocol},
		InsecureSkipVerify: true, // the gateway checks origins before
		CompressionMode:    websocket.CompressionDisabled,
		OnPingReceived:     c.mayAnswer,
	})
	if err != nil {
		return nil, fmt.Errorf("accept a WebSocket: %w", err)
	}
	return c, c.use(ws)
}

// Dial connects to a URL. If the other end refuses, Dial returns its response with
// the error.
func Dial(ctx context.Context, client *http.Client, url string, header http.Header) (*Conn, *http.Response, error) {
	c := &Conn{}
	ws, response, err := websocket.Dial(ctx, url, &websocket.DialOptions{
		HTTPClient: client, HTTPHeader: header, Subprotocols: []string{Protocol}, CompressionMode: websocket.CompressionDisabled,
		OnPingReceived: c.mayAnswer,
	})
	if err != nil {
		return nil, response, fmt.Errorf("open a WebSocket: %w", err)
	}
	return c, nil, c.use(ws)
}

func (c *Conn) use(ws *websocket.Conn) error {
	c.ws = ws
	if ws.Subprotocol() != Protocol {
		_ = ws.CloseNow()
		return errors.New("the other end does not support sessions of this version")
	}
	ws.SetReadLimit(execstream.MaxData + 1)
	return nil
}

// mayAnswer reports whether a ping is answered. While a message waits for a slow reader,
// the answer could not be sent in time, and the package would close the connection.
func (c *Conn) mayAnswer(context.Context, []byte) bool { return c.sending.Load() == 0 }

// Send sends a message. If ctx ends before, the connection is closed.
func (c *Conn) Send(ctx context.Context, m execstream.Message) error {
	if len(m.Data) > execstream.MaxData {
		return execstream.ErrTooLong
	}
	c.sending.Add(1)
	defer c.sending.Add(-1)
	return c.ws.Write(ctx, websocket.MessageBinary, append([]byte{byte(m.Kind)}, m.Data...))
}

// Receive returns the next message. If ctx ends before, the connection is closed.
func (c *Conn) Receive(ctx context.Context) (execstream.Message, error) {
	kind, data, err := c.ws.Read(ctx)
	if err != nil {
		return execstream.Message{}, err
	}
	if kind != websocket.MessageBinary || len(data) == 0 {
		return execstream.Message{}, errors.New("the other end sent something else than a message")
	}
	return execstream.Message{Kind: execstream.Kind(data[0]), Data: data[1:]}, nil
}

// KeepAlive sends a message without effect from time to time, until ctx ends. It is no
// ping: the package closes the connection if a ping cannot be sent within seconds, as to
// a slow reader. TCP detects an end that is gone.
func (c *Conn) KeepAlive(ctx context.Context) {
	ticker := time.NewTicker(keepAlivePeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			// The end of ctx must not close the connection, on which the last message may
			// be on its way.
			if c.Send(context.WithoutCancel(ctx), execstream.Message{Kind: execstream.Stdout}) != nil {
				return
			}
		}
	}
}

// Finish closes the connection after the last message, in order.
func (c *Conn) Finish() { _ = c.ws.Close(websocket.StatusNormalClosure, "") }

// Close closes the connection at once. It may be called again.
func (c *Conn) Close() { _ = c.ws.CloseNow() }
