package executortest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/transfer"
	"github.com/drover-run/drover/run"
)

// childVariable makes a test binary act as an executor instead of running tests.
const childVariable = "DROVER_EXECUTORTEST_CHILD"

// childTask describes the work of a child: it starts a task and follows it, until
// it is killed.
type childTask struct {
	Config     string
	Definition run.Definition
	// HangAt is where the child reports and hangs: "setup", "launch", or "" for
	// nowhere.
	HangAt string
	// Delay is the time between Launch and the report, in a goroutine of its own.
	Delay time.Duration
	// Move makes the child begin the first transfer that a step requests, report that,
	// and hang.
	Move bool
	// Stop makes the child stop the task at its first output.
	Stop bool
}

// The reports of a child.
const (
	saysReached  = "reached"
	saysStarted  = "started"
	saysLaunched = "launched"
	saysMoving   = "moving"
	hangAtSetup  = "setup"
	hangAtLaunch = "launch"
)

// Child must be called first in the TestMain of a driver's package. In a process
// that the suite has started in order to kill it, Child acts as an executor and
// does not return.
func Child(open Open) {
	//nolint:forbidigo // it replaces a main
	if text, ok := os.LookupEnv(childVariable); ok {
		os.Exit(child(text, open))
	}
}

func child(text string, open Open) int {
	report := func(words ...any) { _, _ = fmt.Fprintln(os.Stdout, words...) }
	fail := func(err error) int {
		report("failed:", err)
		return 1
	}
	var o childTask
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return fail(err)
	}
	d, err := open(o.Config)
	if err != nil {
		return fail(err)
	}
	ctx := context.Background()
	hang := func(at string) {
		if o.HangAt == at {
			report(saysReached)
			select {}
		}
	}
	h, err := d.Start(ctx, executor.Task{
		Definition: o.Definition,
		Log:        func(string) { hang(hangAtSetup) },
		Launch: func() (int64, error) {
			hang(hangAtLaunch)
			time.AfterFunc(o.Delay, func() { report(saysLaunched) }) //nolint:forbidigo // a moment within the start, at which the process is killed
			return firstFrame, nil
		},
	})
	if err != nil {
		return fail(err)
	}
	report(saysStarted)
	for f, err := range h.Events(ctx, 1) {
		if err != nil {
			return fail(err)
		}
		if o.Move && f.Kind == run.FrameArchiveRequest {
			if err := beginPacking(ctx, h, f); err != nil {
				return fail(err)
			}
			report(saysMoving)
			select {}
		}
		if o.Stop && f.Kind == run.FrameOutput {
			o.Stop = false
			if err := h.Stop(ctx, grace); err != nil {
				return fail(err)
			}
		}
		if f.Kind == run.FrameOutput {
			report("output", strconv.Quote(string(f.Data)))
		}
	}
	select {}
}

// beginPacking reads the beginning of the archive of a step.
func beginPacking(ctx context.Context, h executor.Handle, frame run.Frame) error {
	archives, ok := h.(executor.ArchiveHandle)
	if !ok {
		return errors.New("the driver does not support archives")
	}
	conn, err := archives.Connect(ctx)
	if err != nil {
		return err
	}
	packing, err := transfer.Pack(ctx, conn, stepRequest(frame), transfer.Limits{})
	if err != nil {
		return err
	}
	_, err = io.ReadFull(packing, make([]byte, 1000))
	return err
}

// killChild runs a child until it reports the word, and kills it.
func (b *bench) killChild(o childTask, word string) {
	b.Helper()
	o.Config = b.Config
	text, err := json.Marshal(o)
	require.NoError(b, err)
	cmd := exec.CommandContext(b.limit(), os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() { b.cleanUp(o.Definition.Key) })
	found := false
	for lines := bufio.NewScanner(out); !found && lines.Scan(); {
		found = len(lines.Text()) >= len(word) && lines.Text()[:len(word)] == word
		if !found {
			b.Log("child:", lines.Text())
		}
	}
	require.NoError(b, cmd.Process.Kill())
	_ = cmd.Wait() // killed
	require.True(b, found, "the child never reported %q", word)
}
