package kubernetes

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/shim/journal"
	"github.com/drover-run/drover/run"
)

// endless is a line without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestDriver_readLog(t *testing.T) {
	t.Parallel()
	const frames = "nonce {\"v\":1,\"n\":3}\nother\nnonce {\"v\":1,\"n\":4}\nnonce {\"v\":1,\"n\":5}\n"
	long := func(start string) io.Reader {
		return io.MultiReader(strings.NewReader(frames+start), io.LimitReader(endless{}, 64<<20), strings.NewReader("\nnonce {\"v\":1,\"n\":6}\n"))
	}
	cases := map[string]struct {
		log    io.Reader
		from   int64
		want   []int64
		reason string
	}{
		"whole":                        {log: strings.NewReader(frames), want: []int64{3, 4, 5}},
		"torn":                         {log: strings.NewReader(frames + "nonce {"), from: 4, want: []int64{4, 5}},
		"a gap":                        {log: strings.NewReader(frames + "nonce {\"v\":1,\"n\":8}\n"), want: []int64{3, 4, 5}, reason: "lacks the frames 6 to 7"},
		"a gap before the first frame": {log: strings.NewReader(frames + "nonce {\"v\":1,\"n\":8}\n"), from: 8, want: []int64{8}},
		"garbage":                      {log: strings.NewReader(frames + "nonce garbage\n"), want: []int64{3, 4, 5}, reason: "not a frame"},
		"an endless line":              {log: long("nonce "), want: []int64{3, 4, 5}, reason: "more than 8 MiB"},
		"an endless line of others":    {log: long(""), want: []int64{3, 4, 5, 6}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, c.log) }))
			t.Cleanup(server.Close)
			d := testDriver(t, func(o *Options) { o.Config = &rest.Config{Host: server.URL} })
			var got []int64
			err := d.readLog(t.Context(), "pod", "nonce", c.from, func(f run.Frame) bool { got = append(got, f.N); return true })
			require.Equal(t, c.want, got)
			if c.reason == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, journal.ErrDamaged)
			require.Contains(t, err.Error(), c.reason)
		})
	}
}

// TestDriver_lastLines: the log begins within a line, and the mask of a secret in it would
// not recognize the rest.
func TestDriver_lastLines(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tail, err := strconv.Atoi(r.URL.Query().Get("tailLines"))
		if err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, "cret\n"+strings.Repeat("line\n", tail-1))
	}))
	t.Cleanup(server.Close)
	d := testDriver(t, func(o *Options) { o.Config = &rest.Config{Host: server.URL} })
	got, err := d.lastLines(t.Context(), "pod", "container")
	require.NoError(t, err)
	require.Equal(t, slices.Repeat([]string{"line"}, serviceTail), got)
}

func TestSession_line_is_bounded(t *testing.T) {
	t.Parallel()
	d := newCutDriver(t, strings.Repeat("x", journal.MaxLine+1)+"\nnext\n")
	s, err := d.exec(t.Context(), execution{pod: "pod", container: mainContainer})
	require.NoError(t, err)
	defer s.close()
	_, err = s.line(t.Context())
	require.ErrorIs(t, err, journal.ErrDamaged)
	line, err := s.line(t.Context())
	require.NoError(t, err)
	require.Equal(t, "next\n", string(line))
}

func TestAddStamped(t *testing.T) {
	t.Parallel()
	const log = "2026-01-02T03:04:05.6Z ready\nfailed to watch file\n2026-01-02T03:04:06Z \n2026-01-02T03:04:07Z the end"
	text := func(l executor.ServiceLog) (out string) {
		for _, p := range l.Pieces {
			out += fmt.Sprint(p.Time.Second(), " ", string(p.Data), "|")
		}
		return out
	}
	var l executor.ServiceLog
	n, err := addStamped(&l, strings.NewReader(log), 100)
	require.NoError(t, err)
	require.Equal(t, int64(4), n)
	require.Equal(t, "5 ready\n|6 \n|7 the end|", text(l))
	require.False(t, l.Cut)
	_, err = addStamped(&l, io.MultiReader(strings.NewReader("2026-01-02T03:04:05Z "), io.LimitReader(endless{}, 64<<20), strings.NewReader("\n"+log)), 100)
	require.NoError(t, err)
	require.Equal(t, "5 ready\n|6 \n|7 the end|", text(l), "a long line is left out as a whole")
	require.True(t, l.Cut)
}

// TestHandle_ServiceLogs: a log that cannot be read to its end costs no other one.
func TestHandle_ServiceLogs(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const at = "2026-01-02T03:04:05Z "
		switch {
		case !strings.HasSuffix(r.URL.Path, "/log"):
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "pod", "uid": "u", "annotations": {%q: "web,db,many,writing"}},
				"status": {"containerStatuses": [{"name": "%s1", "state": {"terminated": {"exitCode": 0}}}]}}`, annotationServices, serviceContainer)
		case r.URL.Query().Get("container") == serviceContainer+"0":
			_, _ = io.WriteString(w, at+"ready\n"+at+"a part of a secr")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case r.URL.Query().Get("container") == serviceContainer+"1":
			_, _ = io.WriteString(w, at+"all\n"+at+"the end")
		case r.URL.Query().Get("container") == serviceContainer+"3":
			_, _ = io.WriteString(w, at+"ready\n"+at+"a part of a secr")
		default:
			_, _ = io.WriteString(w, at+"cret\n"+strings.Repeat(at+"line\n", serviceLines-1))
		}
	}))
	t.Cleanup(server.Close)
	h := &handle{driver: testDriver(t, func(o *Options) { o.Config = &rest.Config{Host: server.URL} }), pod: "pod", uid: "u"}
	logs, err := h.ServiceLogs(t.Context(), 1<<20)
	require.Error(t, err)
	require.Len(t, logs, 4)
	db, many, web, writing := logs[0], logs[1], logs[2], logs[3]
	require.Equal(t, "writing", writing.Service)
	require.Len(t, writing.Pieces, 1, "the rest of a secret may follow")
	require.False(t, writing.Broken)
	require.Equal(t, []string{"db", "many", "web"}, []string{db.Service, many.Service, web.Service})
	require.Len(t, db.Pieces, 2)
	require.Len(t, many.Pieces, serviceLines-1)
	require.Equal(t, "line\n", string(many.Pieces[0].Data), "the log begins within a line")
	require.Len(t, web.Pieces, 1)
	require.Equal(t, "ready\n", string(web.Pieces[0].Data))
	require.Equal(t, []bool{false, true, false}, []bool{db.Cut, many.Cut, web.Cut})
	require.Equal(t, []bool{false, false, true}, []bool{db.Broken, many.Broken, web.Broken})
}

// TestStarting_hides_services: the output of services cannot be masked if they may have other
// secrets than the definition.
func TestStarting_hides_services(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/events") {
			_, _ = io.WriteString(w, "the old secret\n")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"kind": "EventList", "apiVersion": "v1", "items": [{"type": "Warning", "reason": "Unhealthy", "message": "Readiness probe failed: the old secret",
			"involvedObject": {"fieldPath": "spec.containers{%s0}"}}]}`, serviceContainer)
	}))
	t.Cleanup(server.Close)
	for _, hide := range []bool{false, true} {
		var shown []string
		s := &starting{
			driver: testDriver(t, func(o *Options) { o.Config = &rest.Config{Host: server.URL} }),
			task:   executor.Task{HideServices: hide, Definition: run.Definition{Services: []run.ServiceSpec{{Name: "db", Image: "postgres"}}}},
			log:    func(line string) { shown = append(shown, line) },
			pod:    &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}},
		}
		err := s.containerDied(t.Context(), serviceContainer+"0", &corev1.ContainerStateTerminated{ExitCode: 1, Message: "the old secret of a message"})
		require.ErrorContains(t, err, "ended at once")
		require.Equal(t, !hide, strings.Contains(err.Error(), "the old secret"))
		require.Equal(t, !hide, strings.Contains(err.Error(), "of a message"))
		require.NoError(t, s.report(t.Context(), s.pod))
		require.Equal(t, !hide, slices.ContainsFunc(shown, func(line string) bool { return strings.Contains(line, "Readiness probe") }))
		require.Equal(t, !hide, len(shown) > 0)
		require.Equal(t, !hide, s.handle().secrets != nil)
	}
}
