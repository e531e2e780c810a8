package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/executor/shim"
	"github.com/drover-run/drover/executor/shim/journal"
	"github.com/drover-run/drover/run"
)

const (
	// keepaliveInterval is how long the shim's reader is silent before it prints an
	// empty line as a keepalive. keepalivesMissed is how many of those may be
	// missing.
	keepaliveInterval = 10 * time.Second
	keepalivesMissed  = 3
	// sendTimeout bounds one attempt to send an order, including the answer.
	sendTimeout = 30 * time.Second
	// shimTimeout is how long the shim may take until it waits for its order.
	shimTimeout = 10 * time.Second

	// First lines that "drover-shim hand" prints.
	handBegun  = "begun\n"
	handExists = "exists\n"
)

// sendOrder sends an order to the shim and returns the session, which then prints
// the journal. CodeInvalid means that the shim refused the order. After any
// other error the order may be sent again.
func (d *Driver) sendOrder(ctx context.Context, pod string, order []byte) (*session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, sendTimeout, run.Errorf(run.CodeUnavailable, "the pod did not take its order within %s", sendTimeout))
	defer cancel()
	s, err := d.exec(ctx, execution{
		pod: pod, container: mainContainer, stdin: true, stallTimeout: keepalivesMissed * d.keepalive,
		args: []string{"hand", "--dir", taskDir, "--timeout", shimTimeout.String(), "--pulse", d.keepalive.String()},
	})
	if err != nil {
		return nil, err
	}
	// The end of the session closes the pipe, which ends this goroutine. A
	// truncated order has no newline, so the shim never takes it for the whole.
	go func() { _, _ = s.stdin.Write(order) }()
	answer, err := s.line(ctx)
	if err == nil && (string(answer) == handBegun || string(answer) == handExists) {
		return s, nil
	}
	defer s.close()
	if err == nil {
		return nil, run.Errorf(run.CodeInternal, "the shim answers %q", answer)
	}
	code, ended := 0, err
	if errors.Is(err, io.EOF) {
		code, ended = s.outcome()
	}
	switch {
	case ended != nil:
		return nil, run.Errorf(run.CodeUnavailable, "send the definition to the shim: %w", ended)
	case code == shim.ExitOrder:
		return nil, run.Errorf(run.CodeInvalid, "%s", s.stderr.String())
	}
	return nil, run.Errorf(run.CodeUnavailable, "send the definition to the shim: exit code %d: %s", code, s.stderr.String())
}

// follow starts a reader that prints the journal from the given frame on, as it
// grows.
func (d *Driver) follow(ctx context.Context, pod string, from int64) (*session, error) {
	return d.exec(ctx, execution{
		pod: pod, container: mainContainer, stdin: true, stallTimeout: keepalivesMissed * d.keepalive,
		args: []string{"read", "--dir", taskDir, "--from", strconv.FormatInt(from, 10), "--follow", "--pulse", d.keepalive.String()},
	})
}

// journalEnded reports whether a damaged journal has ended. The program that prints
// the journal's lines does not decode them, so it cannot report that.
func (d *Driver) journalEnded(ctx context.Context, pod string, from int64) bool {
	code, _, err := d.execWait(ctx, pod, "read", "--dir", taskDir, "--from", strconv.FormatInt(from, 10), "--verify")
	return err == nil && code == shim.ExitSpoiled
}

// hasJournal reports whether the shim of a running container has begun its
// journal.
func (d *Driver) hasJournal(ctx context.Context, pod string) (bool, error) {
	ctx, cancel := d.call(ctx)
	defer cancel()
	s, err := d.follow(ctx, pod, 1)
	if err != nil {
		return false, err
	}
	defer s.close()
	_, err = s.line(ctx)
	if err == nil || errors.Is(err, journal.ErrDamaged) {
		return true, nil // frames and keepalives are printed only if there is a journal
	}
	if !errors.Is(err, io.EOF) {
		return false, err
	}
	code, err := s.outcome()
	switch {
	case err != nil:
		return false, err
	case code == shim.ExitNoJournal:
		return false, nil
	case code == shim.ExitDamaged, code == shim.ExitSpoiled:
		return true, nil
	case code == shim.ExitDone:
		return false, errCut
	}
	return false, run.Errorf(run.CodeUnavailable, "ask the shim whether it has begun: exit code %d: %s", code, s.stderr.String())
}

// stop requests the shim to stop its task, with or without a cleanup. The shim of a
// pod may be older than this executor: it then has no cleanup, and no option for it.
func (d *Driver) stop(ctx context.Context, pod string, grace time.Duration, abort bool) error {
	args := []string{"stop", "--dir", taskDir, "--grace", grace.String()}
	code, stderr, err := shim.ExitUsage, "", error(nil)
	if abort {
		code, stderr, err = d.execWait(ctx, pod, append(slices.Clone(args), "--abort")...)
	}
	if err == nil && code == shim.ExitUsage {
		code, stderr, err = d.execWait(ctx, pod, args...)
	}
	if err == nil && code != shim.ExitDone {
		err = run.Errorf(run.CodeUnavailable, "exit code %d: %s", code, strings.TrimSpace(stderr))
	}
	if err != nil {
		return fmt.Errorf("stop the task: %w", err)
	}
	return nil
}
