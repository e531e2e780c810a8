package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-run/drover/executor/shim/journal"
	"github.com/drover-run/drover/internal/retry"
	"github.com/drover-run/drover/run"
)

const (
	// HandoverFile is the socket in the shim's directory that accepts the order, if
	// Options.Order is nil.
	HandoverFile = "order"
	// handoverLimit bounds one attempt to hand an order over. The caller has read the
	// order completely, so the attempt is fast.
	handoverLimit = 10 * time.Second
	// handoverPoll is the pause between attempts while the shim does not listen yet.
	handoverPoll = 20 * time.Millisecond
	// handoverMessage bounds the response.
	handoverMessage = 4 << 10
)

// Errors of Handover.
var (
	// ErrBegun means that the shim has an order already: a step may have run.
	ErrBegun = errors.New("the task has begun already")
	// ErrNoShim means that no shim accepts an order in the directory.
	ErrNoShim = errors.New("no shim accepts an order here")
)

// receiver accepts one order at a socket. It rejects truncated and unsupported
// orders until it has a valid one.
type receiver struct {
	listener net.Listener
	sender   net.Conn // connection of the accepted order, which waits for the response
}

func newReceiver(ctx context.Context, dir string) (*receiver, error) {
	path := filepath.Join(dir, HandoverFile)
	// The shim holds the lock: no process listens on an existing socket.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove an old socket: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for the order: %w", err)
	}
	return &receiver{listener: listener}, nil
}

// receive waits for an order.
func (r *receiver) receive() (run.ShimSpec, error) {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return run.ShimSpec{}, fmt.Errorf("wait for the order: %w", err)
		}
		err = conn.SetDeadline(time.Now().Add(handoverLimit))
		var order run.ShimSpec
		if err == nil {
			order, err = ReadOrder(conn)
		}
		if err == nil {
			r.sender = conn
			return order, nil
		}
		respond(conn, err)
	}
}

// answer sends the result of the order to its sender, and accepts no more orders.
func (r *receiver) answer(fault error) {
	if r.sender != nil {
		respond(r.sender, fault)
	}
	_ = r.listener.Close() // removes the socket
}

// respond sends a response and closes the connection; an empty response is a success.
func respond(conn net.Conn, fault error) {
	answer := struct {
		Fault string `json:"fault,omitempty"`
	}{}
	if fault != nil {
		answer.Fault = fault.Error()
	}
	// A client that receives no response finds the connection closed.
	_ = errors.Join(json.NewEncoder(conn).Encode(answer), conn.Close())
}

// Handover sends an order, the JSON of a run.ShimSpec, to the shim of the
// directory, and waits until the shim has begun or refused. It waits until ctx ends
// for a shim that does not listen yet. Errors: ErrBegun, ErrNoShim, and CodeInvalid
// if the shim refused the order. After any other error it is unknown whether the
// shim has begun: a retry is safe.
func Handover(ctx context.Context, dir string, order []byte) error {
	for {
		answered, err := tryHandover(ctx, dir, order)
		switch {
		case answered && err == nil:
			return nil
		case journal.Exists(dir): // the journal exists before the response, and before the socket is removed
			return ErrBegun
		case answered:
			return err
		}
		if retry.Sleep(ctx, handoverPoll) != nil {
			return ErrNoShim
		}
	}
}

func tryHandover(ctx context.Context, dir string, order []byte) (answered bool, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, HandoverFile))
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(handoverLimit)); err != nil {
		return false, err
	}
	if _, err := conn.Write(order); err != nil {
		return false, err
	}
	var answer struct {
		Fault string `json:"fault"`
	}
	if err := json.NewDecoder(io.LimitReader(conn, handoverMessage)).Decode(&answer); err != nil {
		return false, err
	}
	if answer.Fault != "" {
		return true, run.Errorf(run.CodeInvalid, "the shim refused the order: %s", answer.Fault)
	}
	return true, nil
}
