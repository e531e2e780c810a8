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

	"github.com/drover-run/drover/run"
)

const (
	// HandoverFile is the socket in the shim's directory at which it takes its
	// order, where it was told to.
	HandoverFile = "order"
	// handoverLimit bounds one attempt to hand an order over. It was read
	// whole before, so it takes no time.
	handoverLimit = 10 * time.Second
	// handoverLook is the pause before a shim that is not there yet is looked
	// for again.
	handoverLook = 20 * time.Millisecond
	// handoverMessage bounds what is answered.
	handoverMessage = 4 << 10
)

// Errors of Handover.
var (
	// ErrBegun says that the shim has an order already: a step may have run.
	ErrBegun = errors.New("the task has begun already")
	// ErrNoShim says that no shim takes an order in the directory.
	ErrNoShim = errors.New("no shim takes an order here")
)

// receiver takes one order at a socket. Until it has one that is whole and
// understood it goes on taking them, from whoever comes.
type receiver struct {
	listener net.Listener
	giver    net.Conn // of the order that was taken, who waits for the answer
}

func newReceiver(ctx context.Context, dir string) (*receiver, error) {
	path := filepath.Join(dir, HandoverFile)
	// The lock is held: a socket that is there has nobody behind it.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("removing an old socket: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listening for the order: %w", err)
	}
	return &receiver{listener: listener}, nil
}

// receive waits for an order.
func (r *receiver) receive() (run.ShimOrder, error) {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return run.ShimOrder{}, fmt.Errorf("waiting for the order: %w", err)
		}
		err = conn.SetDeadline(time.Now().Add(handoverLimit))
		var order run.ShimOrder
		if err == nil {
			order, err = ReadOrder(conn)
		}
		if err == nil {
			r.giver = conn
			return order, nil
		}
		tell(conn, err)
	}
}

// answer tells the giver what became of the order, and takes none any more.
func (r *receiver) answer(fault error) {
	if r.giver != nil {
		tell(r.giver, fault)
	}
	_ = r.listener.Close() // removes the socket
}

// tell answers and closes; an empty answer is a yes.
func tell(conn net.Conn, fault error) {
	answer := struct {
		Fault string `json:"fault,omitempty"`
	}{}
	if fault != nil {
		answer.Fault = fault.Error()
	}
	// Who asked finds the connection closed where no answer reaches it.
	_ = errors.Join(json.NewEncoder(conn).Encode(answer), conn.Close())
}

// Handover gives an order, the JSON of a run.ShimOrder, to the shim of the
// directory, and waits until it has begun or refused. A shim that is not there
// yet is waited for as long as ctx lasts. Errors: ErrBegun, ErrNoShim, and
// CodeInvalid where the shim refused the order. After any other it is not
// known whether the shim has begun: to ask again is safe.
func Handover(ctx context.Context, dir string, order []byte) error {
	for {
		answered, err := tryHandover(ctx, dir, order)
		switch {
		case answered && err == nil:
			return nil
		case HasJournal(dir): // begun before the answer is given, and before the socket goes
			return ErrBegun
		case answered:
			return err
		}
		timer := time.NewTimer(handoverLook)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
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
