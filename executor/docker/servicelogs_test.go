package docker

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/client"
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
			for _, name := range []string{"broken", "failed", "whole", "short"} {
				list = append(list, fmt.Sprintf(`{"Id": %[1]q, "Labels": {"drover.role": "service", "drover.service": %[1]q}}`, name))
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
	require.Len(t, logs, 4)
	text := func(l executor.ServiceLog) string {
		var out strings.Builder
		for _, p := range l.Pieces {
			require.Equal(t, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), p.Time)
			out.Write(p.Data)
		}
		return out.String()
	}
	broken, failed, short, whole := logs[0], logs[1], logs[2], logs[3]
	require.Equal(t, []string{"broken", "failed", "short", "whole"}, []string{broken.Service, failed.Service, short.Service, whole.Service})
	require.Equal(t, "ready\nan error\n", text(broken))
	require.Equal(t, []bool{true, true, false, false}, []bool{broken.Broken, failed.Broken, short.Broken, whole.Broken})
	require.Empty(t, failed.Pieces)
	require.Equal(t, "all\nthe end", text(whole))
	require.Equal(t, []bool{false, false, true, false}, []bool{broken.Cut, failed.Cut, short.Cut, whole.Cut})
	require.Len(t, short.Pieces, serviceLogBytes/entryOverhead-1, "the first line may be a part of one")
}
