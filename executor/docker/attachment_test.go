package docker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

func TestAttachment_next(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 3*lineBuffer)
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
	f, err := a.next(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, f.N)
	f, err = a.next(t.Context())
	require.NoError(t, err)
	require.Equal(t, big, f.Outputs["big"])
	_, err = a.next(t.Context())
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
	_, err = newTestAttachment(t, &written).next(t.Context())
	require.Equal(t, run.CodeInternal, run.CodeOf(err))
	require.False(t, isStreamEnd(err))
}

func newTestAttachment(t *testing.T, streams io.Reader) *attachment {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
	a := &attachment{conn: types.HijackedResponse{Conn: ours}, nonce: []byte("nonce ")}
	a.lines = bufio.NewReaderSize(&demultiplexer{source: iotest.HalfReader(streams), stderr: &a.tail}, lineBuffer)
	return a
}

func TestReadFrames_leaves_out_a_torn_line(t *testing.T) {
	t.Parallel()
	var got []int64
	wanted, err := readFrames(strings.NewReader(`{"v":1,"n":3}
{"v":1,"n":4}
{"v":1,"n":5}
{"v":1,"n"`), 4, func(f run.Frame) bool { got = append(got, f.N); return true })
	require.NoError(t, err)
	require.True(t, wanted)
	require.Equal(t, []int64{4, 5}, got)
}
