// Package exec is the command that runs a command in a task.
package exec

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/cli/command"
	"github.com/drover-run/drover/cli/remote"
	"github.com/drover-run/drover/cli/session"
	"github.com/drover-run/drover/internal/execstream"
	"github.com/drover-run/drover/internal/execstream/socket"
	"github.com/drover-run/drover/run"
)

// Command returns the command. complete completes runs and tasks.
func Command(env session.Env, conn *session.Connection, complete cobra.CompletionFunc) *cobra.Command {
	tty := false
	c := &cobra.Command{
		Use:   "exec ID TASK -- COMMAND [ARG...]",
		Short: "Run a command in a running task",
		Long: `Runs a command in the environment of a running task: with the environment variables, the working directory and the user of
the step that runs, also with its secrets. The token needs the scope exec, and the pool of the task must not forbid it. An event
records who ran which command, and how it ended.

If standard input and output are a terminal, the command gets a terminal too. Otherwise stdin, stdout and stderr are kept apart.
The exit code is that of the command; failures of drover itself have the usual exit codes. The end of the connection ends the
command, and never the task.`,
		Example: `  drover runs exec 01k8z3m6w4v6q2d1c9x7b5a3n1 build -- sh
  drover runs exec 01k8z3m6w4v6q2d1c9x7b5a3n1 build -- cat report.xml > report.xml`,
		Args:              cobra.MinimumNArgs(3),
		ValidArgsFunction: complete,
		RunE: func(c *cobra.Command, args []string) error {
			interactive := env.MakeRaw != nil && env.IsTerminal()
			if c.Flags().Changed("tty") {
				interactive = tty
			}
			client, err := conn.Open()
			if err != nil {
				return err
			}
			return execute(c.Context(), env, client, args, interactive)
		},
	}
	c.Flags().BoolVarP(&tty, "tty", "t", false, "give the command a terminal (default: if standard input and output are one)")
	return c
}

const (
	releasePoll    = 100 * time.Millisecond
	releaseTimeout = 10 * time.Second // from the end of the session to the end of the task
)

// Release returns the command that ends the hold of a failed task.
func Release(env session.Env, conn *session.Connection, complete cobra.CompletionFunc) *cobra.Command {
	return &cobra.Command{
		Use:   "release ID TASK",
		Short: "End the hold of a failed task",
		Long: `Ends the time for which hold_on_failure keeps the environment of a failed task. The task then ends as failed. The token needs the
scope exec.`,
		Example:           "  drover runs release 01k8z3m6w4v6q2d1c9x7b5a3n1 build",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: complete,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := conn.Open()
			if err != nil {
				return err
			}
			return release(c.Context(), env, client, args)
		},
	}
}

// release ends the hold of a task. The end of the task may end the session before it
// answers, so the state of the task decides then.
func release(ctx context.Context, env session.Env, client *remote.Client, args []string) error {
	held, err := client.Run(ctx, args[0])
	if err != nil {
		return err
	}
	ended := start(ctx, env, client, args, execstream.StartRequest{Command: []string{"release"}, Release: true})
	if run.CodeOf(ended) != run.CodeCanceled {
		return ended
	}
	ticker := time.NewTicker(releasePoll)
	defer ticker.Stop()
	ctx, cancel := context.WithTimeoutCause(ctx, releaseTimeout, ended)
	defer cancel()
	for {
		now, err := client.Run(ctx, args[0])
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		before, after := held.Value.Tasks[args[1]], now.Value.Tasks[args[1]]
		if after.Status != before.Status || after.Attempt != before.Attempt {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

func execute(ctx context.Context, env session.Env, client *remote.Client, args []string, tty bool) error {
	const names = 2 // the run and the task
	return start(ctx, env, client, args, execstream.StartRequest{Command: args[names:], TTY: tty})
}

// start runs a session in the run and the task of the arguments.
func start(ctx context.Context, env session.Env, client *remote.Client, args []string, request execstream.StartRequest) error {
	input := io.Reader(nil)
	if !request.Release {
		var err error
		if input, err = env.TakeStdin("the command"); err != nil {
			return err
		}
	}
	tty := request.TTY
	if tty {
		columns, rows := env.TerminalSize()
		request.Size, request.Term = size(columns, rows), env.Variable("TERM")
	}
	first, err := execstream.Encode(execstream.Start, request)
	if err != nil {
		return run.Errorf(run.CodeTooLarge, "the command is too long")
	}
	conn, err := client.Exec(ctx, args[0], args[1])
	if err != nil {
		return err
	}
	defer conn.Close()
	if tty && env.MakeRaw != nil {
		restore, err := env.MakeRaw()
		if err == nil { // otherwise stdin is not a terminal, and its bytes are sent as they are
			defer restore()
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := conn.Send(ctx, first); err != nil {
		return lost(err)
	}
	s := &stream{conn: conn, env: env, input: input, credits: make(chan struct{}, execstream.Window)}
	for range execstream.Window {
		s.credits <- struct{}{}
	}
	if request.Release {
		return s.receive(ctx)
	}
	go s.sendInput(ctx) // blocks in the read of stdin, and ends with the process
	if tty && env.Resizes != nil {
		go s.sendSizes(ctx)
	}
	return s.receive(ctx)
}

// stream is the client's end of a session.
type stream struct {
	conn    *socket.Conn
	env     session.Env
	input   io.Reader     // of the command
	credits chan struct{} // one for each message of stdin that may be sent
}

func size(columns, rows int) execstream.Size {
	const largest = 1 << 15
	return execstream.Size{Rows: uint16(min(max(rows, 0), largest)), Cols: uint16(min(max(columns, 0), largest))}
}

// sendInput sends stdin until its end.
func (s *stream) sendInput(ctx context.Context) {
	buffer := make([]byte, execstream.MaxData)
	for {
		n, err := s.input.Read(buffer)
		if n > 0 {
			select {
			case <-s.credits:
			case <-ctx.Done():
				return
			}
			if s.conn.Send(ctx, execstream.Message{Kind: execstream.Stdin, Data: buffer[:n]}) != nil {
				return // receive reports the end
			}
		}
		if err != nil {
			_ = s.conn.Send(ctx, execstream.Message{Kind: execstream.StdinEnd})
			return
		}
	}
}

// sendSizes sends each new size of the terminal.
func (s *stream) sendSizes(ctx context.Context) {
	resized, stop := s.env.Resizes()
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-resized:
		}
		columns, rows := s.env.TerminalSize()
		m, err := execstream.Encode(execstream.Resize, size(columns, rows))
		if err != nil || s.conn.Send(ctx, m) != nil {
			return
		}
	}
}

// receive writes the output of the command, and returns its end.
func (s *stream) receive(ctx context.Context) error {
	for {
		m, err := s.conn.Receive(ctx)
		if err != nil {
			return lost(errors.Join(context.Cause(ctx), err))
		}
		switch m.Kind {
		case execstream.Stdout:
			err = write(s.env.Stdout, m.Data)
		case execstream.Stderr:
			err = write(s.env.Stderr, m.Data)
		case execstream.Ack:
			select {
			case s.credits <- struct{}{}:
			default:
			}
		case execstream.Exit:
			var status execstream.ExitStatus
			if err := m.Decode(&status); err != nil {
				return err
			}
			s.conn.Finish()
			switch {
			case status.Error != "":
				return remote.ExecError(status)
			case status.Code != 0:
				return command.Exit(command.ExitCode(status.Code))
			}
			return nil
		case execstream.Start, execstream.Stdin, execstream.StdinEnd, execstream.Resize: // not from a gateway
		}
		if err != nil {
			return err
		}
	}
}

func write(w io.Writer, data []byte) error {
	_, err := w.Write(data)
	return err
}

func lost(err error) error {
	return &run.Error{Code: run.CodeUnavailable, Message: "the connection to the session was lost, and its command is ended; the task continues", Err: err}
}
