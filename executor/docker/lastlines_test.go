package docker

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
)

func TestDriver_lastLines(t *testing.T) {
	t.Parallel()
	const record = 16 << 10 // the daemon splits longer lines
	cases := map[string]struct {
		records func(tail int) []string
		want    []string
	}{
		"the log begins within a line": {func(tail int) []string {
			return append([]string{"cret\n"}, slices.Repeat([]string{"line\n"}, tail-1)...)
		}, slices.Repeat([]string{"line"}, serviceTail)},
		"a long line": {func(tail int) []string {
			return append(slices.Repeat([]string{strings.Repeat("x", record)}, tail-2), "x\n", "end\n")
		}, []string{"end"}},
		"only a long line": {func(tail int) []string {
			return append(slices.Repeat([]string{strings.Repeat("x", record)}, tail-1), "x\n")
		}, nil},
		"a large record": {func(int) []string { return []string{strings.Repeat("x", executor.LastBytes+1) + "\nend\n"} }, []string{"end"}},
		"a short log":    {func(int) []string { return []string{"one\n", "two\n"} }, []string{"one", "two"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				tail, err := strconv.Atoi(r.URL.Query().Get("tail"))
				if err != nil {
					t.Error(err)
				}
				streams := []io.Writer{stdcopy.NewStdWriter(w, stdcopy.Stdout), stdcopy.NewStdWriter(w, stdcopy.Stderr)}
				for i, text := range c.records(tail) {
					_, _ = io.WriteString(streams[i%2], text)
				}
			}))
			t.Cleanup(server.Close)
			cli, err := client.NewClientWithOpts(client.WithHost("tcp://" + server.Listener.Addr().String()))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, cli.Close()) })
			got, err := (&Driver{client: cli}).lastLines(t.Context(), "container")
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}
