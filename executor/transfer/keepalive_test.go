package transfer

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/archive"
	"github.com/drover-run/drover/run"
)

// long exceeds every silence that is tolerated.
const long = 10 * maxSilence

// slow is a shim that works for long without sending data.
type slow struct{}

var _ Handler = slow{}

func (slow) Request() StepRequest { return StepRequest{Type: run.StepRestoreWorkspace} }

func (slow) Pack(w io.Writer, _ Limits) (archive.Stats, error) {
	<-time.After(long)
	_, err := io.WriteString(w, "an archive")
	<-time.After(long)
	return archive.Stats{Entries: 1}, err
}

func (slow) Unpack(r io.Reader, _ Limits) (archive.Stats, error) {
	n, err := io.Copy(io.Discard, r)
	<-time.After(long)
	return archive.Stats{Bytes: n}, err
}

func (slow) Answer(Answer) bool { return true }

const requestFrame = 7

// calls are all calls of an executor.
func calls() map[string]func(ctx context.Context, conn io.ReadWriteCloser, req StepRequest) error {
	return map[string]func(ctx context.Context, conn io.ReadWriteCloser, req StepRequest) error{
		"inquire": func(ctx context.Context, conn io.ReadWriteCloser, req StepRequest) error {
			_, err := Inquire(ctx, conn, req.Frame)
			return err
		},
		"pack": func(ctx context.Context, conn io.ReadWriteCloser, req StepRequest) error {
			p, err := Pack(ctx, conn, req, Limits{})
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, p)
			_ = p.Close()
			return err
		},
		"unpack": func(ctx context.Context, conn io.ReadWriteCloser, req StepRequest) error {
			_, err := Unpack(ctx, conn, req, Limits{}, strings.NewReader("an archive"))
			return err
		},
		"answer": func(ctx context.Context, conn io.ReadWriteCloser, req StepRequest) error {
			return Send(ctx, conn, req.Frame, Answer{})
		},
	}
}

// A shim that works for long and sends keepalives does not time out.
func TestKeepalives_of_a_busy_shim(t *testing.T) {
	t.Parallel()
	for name, call := range calls() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				go Serve(theirs, requestFrame, slow{})
				require.NoError(t, call(t.Context(), ours, StepRequest{Frame: requestFrame, Keepalives: true}))
			})
		})
	}
}

// A connection that neither sends nor ends times out and may be retried; so does
// one that does not read.
func TestKeepalives_missing(t *testing.T) {
	t.Parallel()
	for name, call := range calls() {
		for how, serve := range map[string]func(net.Conn){
			"reads":         func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
			"does not read": func(net.Conn) {},
			"stops to read": func(c net.Conn) { _, _ = io.CopyN(io.Discard, c, 60) },
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					ours, theirs := net.Pipe()
					go serve(theirs)
					begun := time.Now()
					err := call(t.Context(), ours, StepRequest{Frame: requestFrame, Keepalives: true})
					require.Equal(t, run.CodeUnavailable, run.CodeOf(err), "%v", err)
					require.LessOrEqual(t, time.Since(begun), maxSilence)
				})
			})
		}
	}
}

// A shim of a build without keepalives does not time out.
func TestKeepalives_unsupported_by_the_shim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		go func() {
			w := &wire{rw: theirs}
			var r request
			if w.readJSON(kindRequest, &r) != nil {
				return
			}
			stats, _ := slow{}.Unpack(&stream{wire: w}, Limits{})
			_ = w.writeJSON(kindEnd, end{Stats: stats})
		}()
		stats, err := Unpack(t.Context(), ours, StepRequest{Frame: requestFrame}, Limits{}, strings.NewReader("an archive"))
		require.NoError(t, err)
		require.Equal(t, int64(len("an archive")), stats.Bytes)
	})
}

// An executor of a build without keepalives receives none.
func TestKeepalives_unsupported_by_the_executor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		var server sync.WaitGroup
		defer server.Wait()
		server.Go(func() { Serve(theirs, requestFrame, slow{}) })
		w := &wire{rw: ours}
		require.NoError(t, w.writeJSON(kindRequest, request{Version: 1, Frame: requestFrame, Verb: verbPack}))
		head := make([]byte, 1)
		_, err := io.ReadFull(ours, head)
		require.NoError(t, err)
		require.Equal(t, kindData, kind(head[0]))
		require.NoError(t, ours.Close())
	})
}

func TestInquire_reports_keepalives(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	go Serve(theirs, requestFrame, slow{})
	req, err := Inquire(t.Context(), ours, requestFrame)
	require.NoError(t, err)
	require.Equal(t, StepRequest{Frame: requestFrame, Type: run.StepRestoreWorkspace, Keepalives: true}, req)
}
