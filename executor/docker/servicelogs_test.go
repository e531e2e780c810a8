package docker

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/docker/docker/daemon/logger/jsonfilelog/jsonlog"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

// TestHandle_ServiceLogs: a log that cannot be read to its end costs no other one.
func TestHandle_ServiceLogs(t *testing.T) {
	t.Parallel()
	write := func(w io.Writer, stream stdcopy.StdType, text string) {
		_, _ = io.WriteString(stdcopy.NewStdWriter(w, stream), "2026-01-02T03:04:05.000000000Z "+text)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/containers/json"):
			w.Header().Set("Content-Type", "application/json")
			var list []string
			for _, name := range []string{"broken", "failed", "whole", "short", "writing"} {
				state := container.StateExited
				if name == "writing" {
					state = container.StateRunning
				}
				list = append(list, fmt.Sprintf(`{"Id": %[1]q, "State": %[2]q, "Labels": {"drover.role": "service", "drover.service": %[1]q}}`, name, state))
			}
			_, _ = fmt.Fprintf(w, "[%s]", strings.Join(list, ","))
		case strings.Contains(r.URL.Path, "/broken/"):
			write(w, stdcopy.Stdout, "ready\n")
			write(w, stdcopy.Stdout, "a part of a secr")
			write(w, stdcopy.Stderr, "an error\n")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case strings.Contains(r.URL.Path, "/failed/"):
			w.WriteHeader(http.StatusInternalServerError)
		case strings.Contains(r.URL.Path, "/whole/"):
			write(w, stdcopy.Stdout, "all\n")
			write(w, stdcopy.Stderr, "the end")
		case strings.Contains(r.URL.Path, "/writing/"):
			write(w, stdcopy.Stdout, "ready\n")
			write(w, stdcopy.Stdout, "a part of a secr")
		default: // the daemon stores much more than the text of short lines
			for range serviceLogBytes / entryOverhead {
				write(w, stdcopy.Stdout, "x\n")
			}
		}
	}))
	t.Cleanup(server.Close)
	cli, err := client.NewClientWithOpts(client.WithHost("tcp://" + server.Listener.Addr().String()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cli.Close()) })
	h := &handle{driver: &Driver{client: cli, options: Options{Prefix: "drover"}}, key: run.Key{Run: "r", Attempt: 1, Dispatch: 1}}
	logs, err := h.ServiceLogs(t.Context(), 1<<20)
	require.Error(t, err)
	require.Len(t, logs, 5)
	text := func(l executor.ServiceLog) string {
		var out strings.Builder
		for _, p := range l.Pieces {
			require.Equal(t, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), p.Time)
			out.Write(p.Data)
		}
		return out.String()
	}
	broken, failed, short, whole, writing := logs[0], logs[1], logs[2], logs[3], logs[4]
	require.Equal(t, []string{"broken", "failed", "short", "whole", "writing"}, []string{broken.Service, failed.Service, short.Service, whole.Service, writing.Service})
	require.Equal(t, "ready\n", text(writing), "the rest of a secret may follow")
	require.False(t, writing.Broken)
	require.Equal(t, "ready\nan error\n", text(broken))
	require.Equal(t, []bool{true, true, false, false}, []bool{broken.Broken, failed.Broken, short.Broken, whole.Broken})
	require.Empty(t, failed.Pieces)
	require.Equal(t, "all\nthe end", text(whole))
	require.Equal(t, []bool{false, false, true, false}, []bool{broken.Cut, failed.Cut, short.Cut, whole.Cut})
	require.Len(t, short.Pieces, serviceLogBytes/entryOverhead-1, "the first line may be a part of one")
}

// TestEntrySize: what the daemon stores is compared with the size of its files.
func TestEntrySize(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.UTC)
	for _, text := range []string{"a line\n", "a\ttable\t\b\f\r\n", "\x00\x1b[0m\x7f", `"quoted" \`, "<a> & b", "\u2028\u2029\u00e4\U0001f600\ufffd", "\xff\xfe bad"} {
		var stored bytes.Buffer
		require.NoError(t, (&jsonlog.JSONLogs{Log: []byte(text), Stream: "stdout", Created: at}).MarshalJSONBuf(&stored))
		require.Equal(t, stored.Len()+len("\n"), entrySize([]byte(text)), "%q", text)
	}
}

// TestStarting_hides_services: the output of services cannot be masked if they may have other
// secrets than the definition.
func TestStarting_hides_services(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/logs") {
			_, _ = io.WriteString(stdcopy.NewStdWriter(w, stdcopy.Stdout), "the old secret\n")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"Id": "db", "State": {"Status": "exited", "ExitCode": 1}}`)
	}))
	t.Cleanup(server.Close)
	cli, err := client.NewClientWithOpts(client.WithHost("tcp://" + server.Listener.Addr().String()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cli.Close()) })
	for _, hide := range []bool{false, true} {
		var shown []string
		s := &starting{
			driver: &Driver{client: cli, options: Options{Prefix: "drover"}}, task: executor.Task{HideServices: hide},
			log: func(line string) { shown = append(shown, line) },
		}
		err := s.serviceDied(t.Context(), "db", run.ServiceSpec{Name: "db", Image: "postgres"})
		require.ErrorContains(t, err, "service db (postgres) ended at once")
		require.Equal(t, !hide, strings.Contains(err.Error(), "the old secret"))
		require.Equal(t, !hide, len(shown) > 0)
		require.Equal(t, !hide, s.handle().secrets != nil)
	}
}
