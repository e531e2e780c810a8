// Package socket carries the messages of package execstream over WebSockets.
package socket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/drover-run/drover/internal/execstream"
)

// Protocol is the subprotocol: an end that does not support it fails the handshake.
const Protocol = "drover.exec.v1"

// pingPeriod is the time between two pings, which keep proxies from closing an idle
// connection.
const pingPeriod = 20 * time.Second

// Conn is a connection. Send and Receive may be called at the same time.
type Conn struct{ ws *websocket.Conn }

// Accept accepts a connection. It has answered the request if it fails.
func Accept(w http.ResponseWriter, r *http.Request) (*Conn, error) {
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols:       []string{Protocol},
		InsecureSkipVerify: true, // the gateway checks origins before
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, fmt.Errorf("accept a WebSocket: %w", err)
	}
	return wrap(ws)
}

// Dial connects to a URL. If the other end refuses, Dial returns its response with
// the error.
func Dial(ctx context.Context, client *http.Client, url string, header http.Header) (*Conn, *http.Response, error) {
	ws, response, err := websocket.Dial(ctx, url, &websocket.DialOptions{
		HTTPClient: client, HTTPHeader: header, Subprotocols: []string{Protocol}, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, response, fmt.Errorf("open a WebSocket: %w", err)
	}
	conn, err := wrap(ws)
	return conn, nil, err
}

func wrap(ws *websocket.Conn) (*Conn, error) {
	if ws.Subprotocol() != Protocol {
		_ = ws.CloseNow()
		return nil, errors.New("the other end does not support sessions of this version")
	}
	ws.SetReadLimit(execstream.MaxData + 1)
	return &Conn{ws: ws}, nil
}

// Send sends a message. If ctx ends before, the connection is closed.
func (c *Conn) Send(ctx context.Context, m execstream.Message) error {
	if len(m.Data) > execstream.MaxData {
		return execstream.ErrTooLong
	}
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

// KeepAlive pings the other end until ctx ends.
func (c *Conn) KeepAlive(ctx context.Context) {
	ticker := time.NewTicker(pingPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			// An end that forwards a message to a slow reader answers late, so a missing
			// answer proves nothing. TCP detects an end that is gone.
			waiting, cancel := context.WithTimeout(ctx, pingPeriod)
			_ = c.ws.Ping(waiting)
			cancel()
		}
	}
}

// Finish closes the connection after the last message, in order.
func (c *Conn) Finish() { _ = c.ws.Close(websocket.StatusNormalClosure, "") }

// Close closes the connection at once. It may be called again.
func (c *Conn) Close() { _ = c.ws.CloseNow() }
