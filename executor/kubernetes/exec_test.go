package kubernetes

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/drover-run/drover/executor/shim"
	"github.com/drover-run/drover/run"
)

// newCutDriver returns a driver for a server whose calls into pods print the given
// text and then close the connection cleanly, without a status.
func newCutDriver(t *testing.T, printed string) *Driver {
	t.Helper()
	upgrader := websocket.Upgrader{Subprotocols: []string{"v5.channel.k8s.io"}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return // the client says so
		}
		defer func() { _ = conn.Close() }()
		if printed != "" {
			_ = conn.WriteMessage(websocket.BinaryMessage, append([]byte{1}, printed...)) // 1 is stdout
		}
		end := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		_ = conn.WriteControl(websocket.CloseMessage, end, time.Now().Add(time.Second))
	}))
	t.Cleanup(server.Close)
	return testDriver(t, func(o *Options) { o.Config = &rest.Config{Host: server.URL} })
}

// client-go treats such an end as success. The driver must not.
func TestSession_that_was_cut(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		apply  func(ctx context.Context, d *Driver) error
		answer string // output that proves success without a status
	}{
		"has begun": {answer: `{"n":1}` + "\n", apply: func(ctx context.Context, d *Driver) error {
			begun, err := d.hasJournal(ctx, "pod")
			if err == nil && !begun {
				return errors.New("no journal found")
			}
			return err
		}},
		"has begun, silently": {answer: "\n", apply: func(ctx context.Context, d *Driver) error {
			_, err := d.hasJournal(ctx, "pod")
			return err
		}},
		"stop": {answer: shim.Done, apply: func(ctx context.Context, d *Driver) error {
			return d.stop(ctx, "pod", time.Second, false)
		}},
		"abort": {answer: shim.Done, apply: func(ctx context.Context, d *Driver) error {
			return d.stop(ctx, "pod", 0, true)
		}},
		"services": {answer: shim.Done, apply: func(ctx context.Context, d *Driver) error {
			return d.awaitPorts(ctx, "pod", 1)
		}},
		"copy": {answer: shim.Done, apply: func(ctx context.Context, d *Driver) error {
			h := &handle{driver: d, pod: "pod"}
			return h.CopyTo(ctx, "/tmp", strings.NewReader("a tar"))
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, printed := range []string{"", c.answer[:len(c.answer)-1]} {
				err := c.apply(t.Context(), newCutDriver(t, printed))
				require.Equal(t, run.CodeUnavailable, run.CodeOf(err), "%v", err)
			}
			require.NoError(t, c.apply(t.Context(), newCutDriver(t, c.answer)))
		})
	}
}
