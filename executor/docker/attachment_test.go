package docker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/shim/journal"
	"github.com/drover-run/drover/run"
)

func TestAttachment_next(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 200<<10)
	var written bytes.Buffer
	stdout, stderr := stdcopy.NewStdWriter(&written, stdcopy.Stdout), stdcopy.NewStdWriter(&written, stdcopy.Stderr)
	line := func(f run.Frame) string {
		text, err := json.Marshal(f)
		require.NoError(t, err)
		return "nonce " + string(text) + "\n"
	}
	first := line(run.Frame{Version: 1, N: 1, Kind: run.FrameStepStart})
	long := line(run.Frame{Version: 1, N: 2, Kind: run.FrameOutputs, Outputs: map[string]string{"big": big}})
	for _, part := range []string{"foreign line\n", first[:10], first[10:], "other {}\n", long} {
		_, err := io.WriteString(stdout, part)
		require.NoError(t, err)
		_, err = io.WriteString(stderr, "panic: oops\n")
		require.NoError(t, err)
	}
	a := newTestAttachment(t, &written)
	f, size, err := a.next(t.Context(), time.Minute)
	require.NoError(t, err)
	require.EqualValues(t, 1, f.N)
	require.EqualValues(t, len(first)-len("nonce "), size)
	f, size, err = a.next(t.Context(), time.Minute)
	require.NoError(t, err)
	require.Equal(t, big, f.Outputs["big"])
	require.EqualValues(t, len(long)-len("nonce "), size)
	_, _, err = a.next(t.Context(), time.Minute)
	require.ErrorIs(t, err, io.EOF)
	require.True(t, isStreamEnd(err))
	require.Contains(t, a.tail.String(), "foreign line")
	require.Contains(t, a.tail.String(), "panic: oops")
}

func TestAttachment_next_refuses_a_newer_shim(t *testing.T) {
	t.Parallel()
	var written bytes.Buffer
	_, err := fmt.Fprintf(stdcopy.NewStdWriter(&written, stdcopy.Stdout), "nonce {\"v\":%d,\"n\":1}\n", run.FrameVersion+1)
	require.NoError(t, err)
	_, _, err = newTestAttachment(t, &written).next(t.Context(), time.Minute)
	require.Equal(t, run.CodeInternal, run.CodeOf(err))
	require.False(t, isStreamEnd(err))
}

// timeoutReader returns a timeout before every byte.
type timeoutReader struct {
	source io.Reader
	late   bool
}

func (r *timeoutReader) Read(p []byte) (int, error) {
	if r.late = !r.late; r.late {
		return 0, os.ErrDeadlineExceeded
	}
	return r.source.Read(p[:min(1, len(p))])
}

func TestAttachment_next_continues_after_a_timeout(t *testing.T) {
	t.Parallel()
	var written bytes.Buffer
	for i := range 3 {
		_, err := fmt.Fprintf(stdcopy.NewStdWriter(&written, stdcopy.Stderr), "noise %d\n", i)
		require.NoError(t, err)
		_, err = fmt.Fprintf(stdcopy.NewStdWriter(&written, stdcopy.Stdout), "nonce {\"v\":1,\"n\":%d}\n", i+1)
		require.NoError(t, err)
	}
	a := newTestAttachment(t, &timeoutReader{source: &written})
	timeouts := 0
	for want := int64(1); want <= 3; {
		f, _, err := a.next(t.Context(), time.Minute)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			timeouts++
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want, f.N)
		want++
	}
	require.Greater(t, timeouts, 50)
	require.Equal(t, "noise 0\nnoise 1\nnoise 2", a.tail.String())
}

func newTestAttachment(t *testing.T, streams io.Reader) *attachment {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() {
		require.NoError(t, ours.Close())
		require.NoError(t, theirs.Close())
	})
	a := &attachment{conn: types.HijackedResponse{Conn: ours}, nonce: []byte("nonce ")}
	a.lines = journal.NewLineReader(&demultiplexer{source: iotest.HalfReader(streams), stderr: &a.tail})
	return a
}

func TestReadFrames_leaves_out_a_torn_line(t *testing.T) {
	t.Parallel()
	var got []int64
	requested, err := readFrames(strings.NewReader(`{"v":1,"n":3}
{"v":1,"n":4}
{"v":1,"n":5}
{"v":1,"n"`), 4, func(f run.Frame, _ int64) bool { got = append(got, f.N); return true })
	require.NoError(t, err)
	require.True(t, requested)
	require.Equal(t, []int64{4, 5}, got)
}

func TestReadFrames_of_a_damaged_journal(t *testing.T) {
	t.Parallel()
	const frames = `{"v":1,"n":3}` + "\n" + `{"v":1,"n":4}` + "\n"
	for name, in := range map[string]io.Reader{
		"an endless line": io.MultiReader(strings.NewReader(frames), io.LimitReader(endless{}, 64<<20)),
		"a gap":           strings.NewReader(frames + `{"v":1,"n":6}` + "\n"),
		"garbage":         strings.NewReader(frames + "garbage\n"),
	} {
		var got []int64
		_, err := readFrames(in, 4, func(f run.Frame, _ int64) bool { got = append(got, f.N); return true })
		require.ErrorIs(t, err, journal.ErrDamaged, name)
		require.Equal(t, []int64{4}, got, name)
	}
}

// endless is a line without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestAttachment_next_skips_a_long_line(t *testing.T) {
	t.Parallel()
	var written bytes.Buffer
	stdout := stdcopy.NewStdWriter(&written, stdcopy.Stdout)
	_, err := io.Copy(stdout, io.MultiReader(strings.NewReader("nonce "), io.LimitReader(endless{}, 9<<20), strings.NewReader("\nnonce {\"v\":1,\"n\":2}\n")))
	require.NoError(t, err)
	f, _, err := newTestAttachment(t, &written).next(t.Context(), time.Minute)
	require.NoError(t, err)
	require.EqualValues(t, 2, f.N)
}
