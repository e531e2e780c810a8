package executortest

import (
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/internal/execstream"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

// execCases test sessions in the environment of a running task.
func execCases() []testCase {
	sessions := func(f executor.Features) bool { return f.Exec }
	return []testCase{
		{name: "exec_in_the_step", needs: sessions, run: execInStep},
		{name: "exec_with_a_terminal", needs: sessions, run: execTerminal},
		{name: "exec_of_no_command", needs: sessions, run: execNoCommand},
		{name: "exec_as_the_user", needs: func(f executor.Features) bool { return f.Exec && f.User }, run: execUser},
		{name: "exec_ends_with_its_connection", needs: sessions, run: execDisconnected},
		{name: "exec_slow_reader", needs: sessions, run: func(b *bench) { execSlowReader(b, false) }},
		{name: "exec_slow_reader_of_a_terminal", needs: sessions, run: func(b *bench) { execSlowReader(b, true) }},
		{name: "exec_background_processes", needs: sessions, run: execBackground},
		{name: "hold_released", needs: sessions, run: holdReleased},
		{name: "hold_stopped", needs: sessions, run: holdStopped},
		{name: "hold_expires", needs: sessions, run: holdExpires},
	}
}

// waiting starts a definition whose step runs until a session creates the file done.
func (b *bench) waiting(change func(*run.Definition)) executor.ExecHandle {
	b.Helper()
	d := b.define("echo waiting; while [ ! -e done ]; do sleep 0.1; done; cat done")
	d.WorkingDir, d.Environment = "place", map[string]string{"COLOR": "blue"}
	change(&d)
	h, ok := b.start(d).(executor.ExecHandle)
	require.True(b, ok, "the driver declares sessions")
	read(b.limit(), h, 1, func(s recording) bool { return s.frames[len(s.frames)-1].Kind == run.FrameOutput })
	return h
}

// finish ends the task of waiting, and checks that no session has disturbed it.
func (b *bench) finish(h executor.ExecHandle) {
	b.Helper()
	_, _, status := b.session(h, execstream.StartRequest{Command: []string{"sh", "-c", "echo finished > new && mv new done"}})
	require.Equal(b, execstream.ExitStatus{}, status)
	s := b.follow(h)
	require.Equal(b, run.StatusSuccess, s.result().Status, s.result().Reason)
	require.Equal(b, "waiting\nfinished\n", s.stepOutput(0))
	b.remove(h)
}

// session runs a command to its end, with messages for it.
func (b *bench) session(h executor.ExecHandle, request execstream.StartRequest, messages ...execstream.Message) (stdout, stderr string, status execstream.ExitStatus) {
	b.Helper()
	c := b.beginSession(h, request)
	defer func() { require.NoError(b, c.Close()) }()
	for _, m := range messages {
		require.NoError(b, execstream.Write(c, m))
	}
	for {
		m, err := execstream.Read(c)
		require.NoError(b, err, "stdout %q, stderr %q", stdout, stderr)
		switch m.Kind { //nolint:exhaustive // acknowledgments need nothing
		case execstream.Stdout:
			stdout += string(m.Data)
		case execstream.Stderr:
			stderr += string(m.Data)
		case execstream.Exit:
			require.NoError(b, m.Decode(&status))
			return stdout, stderr, status
		}
	}
}

func (b *bench) beginSession(h executor.ExecHandle, request execstream.StartRequest) io.ReadWriteCloser {
	b.Helper()
	c, err := h.Exec(b.limit())
	require.NoError(b, err)
	timer := time.AfterFunc(testenv.Patience(b), func() { _ = c.Close() })
	b.Cleanup(func() { timer.Stop(); _ = c.Close() })
	start, err := execstream.Encode(execstream.Start, request)
	require.NoError(b, err)
	require.NoError(b, execstream.Write(c, start))
	return c
}

func execInStep(b *bench) {
	h := b.waiting(func(*run.Definition) {})
	stdout, stderr, status := b.session(h,
		execstream.StartRequest{Command: []string{"sh", "-c", `echo "$COLOR $(basename "$PWD")"; echo wrong >&2; cat; exit 7`}},
		execstream.Message{Kind: execstream.Stdin, Data: []byte("from stdin\n")}, execstream.Message{Kind: execstream.StdinEnd})
	require.Equal(b, "blue place\nfrom stdin\n", stdout)
	require.Equal(b, "wrong\n", stderr)
	require.Equal(b, execstream.ExitStatus{Code: 7}, status)
	b.finish(h)
}

// execTerminal resizes a terminal between two looks at its size.
func execTerminal(b *bench) {
	h := b.waiting(func(*run.Definition) {})
	c := b.beginSession(h, execstream.StartRequest{
		Command: []string{"sh", "-c", `[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo "terminal $TERM $COLOR"; stty size; read line; echo "got $line"; stty size`},
		TTY:     true, Term: "vt100", Size: execstream.Size{Rows: 40, Cols: 100},
	})
	shown := b.awaitScreen(c, "40 100")
	require.Contains(b, shown, "terminal vt100 blue")
	resize, err := execstream.Encode(execstream.Resize, execstream.Size{Rows: 50, Cols: 120})
	require.NoError(b, err)
	require.NoError(b, execstream.Write(c, resize))
	require.NoError(b, execstream.Write(c, execstream.Message{Kind: execstream.Stdin, Data: []byte("a line\n")}))
	require.Contains(b, b.awaitScreen(c, "50 120"), "got a line")
	require.NoError(b, c.Close())
	b.finish(h)
}

// awaitScreen reads the output of a terminal until it has a text.
func (b *bench) awaitScreen(c io.Reader, text string) (all string) {
	b.Helper()
	for !strings.Contains(all, text) {
		m, err := execstream.Read(c)
		require.NoError(b, err, all)
		require.NotEqual(b, execstream.Exit, m.Kind, "%s %s", all, m.Data)
		if m.Kind == execstream.Stdout {
			all += string(m.Data)
		}
	}
	return all
}

func execNoCommand(b *bench) {
	h := b.waiting(func(*run.Definition) {})
	_, stderr, status := b.session(h, execstream.StartRequest{Command: []string{"there-is-no-such-command"}})
	require.Equal(b, execstream.ExitStatus{Code: 127}, status)
	require.Contains(b, stderr, "there-is-no-such-command")
	b.finish(h)
}

func execUser(b *bench) {
	h := b.waiting(func(d *run.Definition) { d.User = b.User.Name })
	stdout, stderr, status := b.session(h, execstream.StartRequest{Command: []string{"sh", "-c", "id -u; id -G; echo $COLOR"}})
	require.Equal(b, execstream.ExitStatus{}, status, stderr)
	require.Equal(b, b.User.ID+"\n"+b.User.Groups+"\nblue\n", stdout)
	b.finish(h)
}

// execDisconnected closes the connection of a command that ignores signals.
func execDisconnected(b *bench) {
	for _, tty := range []bool{false, true} {
		h := b.waiting(func(*run.Definition) {})
		c := b.beginSession(h, execstream.StartRequest{
			Command: []string{"sh", "-c", `trap '' TERM HUP INT; echo begun; (while :; do echo x >> beat; sleep 0.05; done) & wait`}, TTY: tty,
		})
		m, err := execstream.Read(c)
		require.NoError(b, err)
		require.Equal(b, "begun", strings.TrimSpace(string(m.Data)))
		require.NoError(b, c.Close())
		testenv.Await(b, func() (bool, string) {
			stdout, _, status := b.session(h, execstream.StartRequest{
				Command: []string{"sh", "-c", `a=$(wc -c < beat); sleep 0.5; [ "$a" = "$(wc -c < beat)" ] && echo silent || echo alive`},
			})
			return status == (execstream.ExitStatus{}) && stdout == "silent\n", "the command lives on"
		})
		b.finish(h)
	}
}

// execSlowReader takes nothing for a while, and then the end of the output slowly. A
// client like this loses nothing.
func execSlowReader(b *bench, tty bool) {
	const (
		lines = 150000
		end   = 320 << 10 // more than the pipes of a command and of its shim hold
		step  = 24 << 10
	)
	newline := "\n"
	if tty {
		newline = "\r\n"
	}
	var want strings.Builder
	for i := range lines {
		want.WriteString(strconv.Itoa(i+1) + newline)
	}
	h := b.waiting(func(*run.Definition) {})
	pause := func(seconds string) {
		_, _, status := b.session(h, execstream.StartRequest{Command: []string{"sleep", seconds}})
		require.Equal(b, execstream.ExitStatus{}, status)
	}
	c := b.beginSession(h, execstream.StartRequest{Command: []string{"sh", "-c", "seq 1 " + strconv.Itoa(lines)}, TTY: tty})
	var got strings.Builder
	for taken := 0; ; {
		m, err := execstream.Read(c)
		require.NoError(b, err)
		if m.Kind == execstream.Exit {
			var status execstream.ExitStatus
			require.NoError(b, m.Decode(&status))
			require.Equal(b, execstream.ExitStatus{}, status)
			break
		}
		require.Equal(b, execstream.Stdout, m.Kind)
		if got.Len() == 0 {
			pause("2")
		}
		got.Write(m.Data)
		if rest := want.Len() - got.Len(); rest < end && got.Len()-taken > step {
			taken = got.Len()
			pause("0.2")
		}
	}
	if want.String() != got.String() {
		b.Fatalf("%d of %d bytes came", got.Len(), want.Len())
	}
	require.NoError(b, c.Close())
	b.finish(h)
}

// execBackground leaves processes that hold the output of a command open. They end with
// the session, and do not delay its end.
func execBackground(b *bench) {
	h := b.waiting(func(*run.Definition) {})
	for _, script := range []string{"sleep 1000 & echo done", "yes & echo done", "(while :; do echo x; sleep 0.05; done) & echo done"} {
		for _, tty := range []bool{false, true} {
			stdout, _, status := b.session(h, execstream.StartRequest{Command: []string{"sh", "-c", "trap '' HUP; " + script}, TTY: tty})
			require.Equal(b, execstream.ExitStatus{}, status, script)
			require.Contains(b, stdout, "done", script)
		}
	}
	b.finish(h)
}

// held starts a definition that fails in its first step, and waits until it is held.
func (b *bench) held(limit time.Duration) executor.ExecHandle {
	b.Helper()
	d := b.define("echo kept > file; exit 3", "echo never")
	d.Steps = append(d.Steps, run.StepDef{Script: "echo cleaned up", When: run.WhenAlways})
	d.WorkingDir, d.Environment, d.HoldOnFailure = "place", map[string]string{"COLOR": "blue"}, limit
	h, ok := b.start(d).(executor.ExecHandle)
	require.True(b, ok, "the driver declares sessions")
	read(b.limit(), h, 1, func(s recording) bool {
		f := s.frames[len(s.frames)-1]
		return f.Kind == run.FrameOutput && f.Stream == run.StreamSystem && strings.Contains(string(f.Data), "its environment is held")
	})
	return h
}

// finishHeld follows a held task to its end.
func (b *bench) finishHeld(h executor.ExecHandle, why string) {
	b.Helper()
	s := b.follow(h)
	r := s.result()
	require.Equal(b, run.StatusFailed, r.Status, r.Reason)
	require.Equal(b, 3, *r.ExitCode)
	require.Contains(b, s.stepOutput(0), why+"\n")
	require.Equal(b, "cleaned up\n", s.stepOutput(2))
	b.remove(h)
}

func holdReleased(b *bench) {
	h := b.held(time.Hour)
	for range 2 {
		stdout, stderr, status := b.session(h, execstream.StartRequest{Command: []string{"sh", "-c", "echo $COLOR; cat file"}})
		require.Equal(b, execstream.ExitStatus{}, status, stderr)
		require.Equal(b, "blue\nkept\n", stdout)
	}
	_, _, status := b.session(h, execstream.StartRequest{Command: []string{"release"}, Release: true})
	require.Equal(b, execstream.ExitStatus{}, status)
	b.finishHeld(h, "released")
}

func holdStopped(b *bench) {
	h := b.held(time.Hour)
	require.NoError(b, h.Stop(b.limit(), grace))
	b.finishHeld(h, "released by a stop")
}

func holdExpires(b *bench) {
	b.finishHeld(b.held(200*time.Millisecond), "released after 200ms")
	// A running step cannot be released.
	h := b.waiting(func(d *run.Definition) { d.HoldOnFailure = time.Hour })
	_, _, status := b.session(h, execstream.StartRequest{Command: []string{"release"}, Release: true})
	require.Contains(b, status.Error, "not held")
	b.finish(h)
}
