package logging_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/logging"
)

// valuer resolves to a group.
type valuer struct{}

func (valuer) LogValue() slog.Value { return slog.GroupValue(slog.Int("n", 1), slog.Int("n", 2)) }

func TestNew_lines(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		log        func(*slog.Logger)
		json, text string // without time, level and message
	}{
		"unique": {
			func(l *slog.Logger) { l.With("pool", "a").Info("m", "error", errors.New("e"), "n", 1) },
			`"pool":"a","error":"e","n":1`, `pool=a error=e n=1`,
		},
		"the same value of the logger": {
			func(l *slog.Logger) { l.With("pool", "a").With("pool", "a").Info("m", "pool", "a", "n", 1) },
			`"pool":"a","n":1`, `pool=a n=1`,
		},
		"another value": {
			func(l *slog.Logger) { l.With("pool", "a", "pool", "b").Info("m", "pool", "c", "pool", 1) },
			`"pool":"a","pool_2":"b","pool_3":"c","pool_4":1`, `pool=a pool_2=b pool_3=c pool_4=1`,
		},
		"twice in the line": {
			func(l *slog.Logger) { l.Info("m", "n", 1, "n", 1, "n", 2) },
			`"n":1,"n_2":2`, `n=1 n_2=2`,
		},
		"keys of each line": {
			func(l *slog.Logger) { l.With("time", "now").Info("m", "level", "high", "msg", "m") },
			`"time_2":"now","level_2":"high","msg_2":"m"`, `time_2=now level_2=high msg_2=m`,
		},
		"durations": {
			func(l *slog.Logger) { l.With("a", time.Minute).Info("m", "b", 1500*time.Millisecond) },
			`"a":"1m0s","b":"1.5s"`, `a=1m0s b=1.5s`,
		},
		"groups": {
			func(l *slog.Logger) {
				l.With("n", 1).WithGroup("g").With("n", time.Second).Info("m", "n", 1, slog.Group("h", "n", time.Second, "n", 2))
			},
			`"n":1,"g":{"n":"1s","n_2":1,"h":{"n":"1s","n_2":2}}`, `n=1 g.n=1s g.n_2=1 g.h.n=1s g.h.n_2=2`,
		},
		"a group with the key of an attribute": {
			func(l *slog.Logger) { l.With("n", 1).WithGroup("n").Info("m", "n", 2) },
			`"n":1,"n_2":{"n":2}`, `n=1 n_2.n=2`,
		},
		"a group without a key": {
			func(l *slog.Logger) { l.Info("m", "n", 1, slog.Group("", "n", 2)) },
			`"n":1,"n_2":2`, `n=1 n_2=2`,
		},
		"values that resolve": {
			func(l *slog.Logger) { l.Info("m", "v", valuer{}) },
			`"v":{"n":1,"n_2":2}`, `v.n=1 v.n_2=2`,
		},
		"values that cannot be compared": {
			func(l *slog.Logger) { l.Info("m", "v", []string{"a"}, "v", []string{"a"}, "v", []string{"b"}) },
			`"v":["a"],"v_2":["b"]`, `v=[a] v_2=[b]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			test.log(logging.New(&out, logging.FormatJSON, slog.LevelInfo))
			_, got, _ := strings.Cut(out.String(), `"msg":"m",`)
			require.Equal(t, test.json+"}\n", got)
			out.Reset()
			test.log(logging.New(&out, "text", slog.LevelInfo))
			_, got, _ = strings.Cut(out.String(), `msg=m `)
			require.Equal(t, test.text+"\n", got)
		})
	}
}

// TestNew_siblings checks that loggers which are made from one logger do not share
// the memory of their keys.
func TestNew_siblings(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	base := logging.New(&out, logging.FormatJSON, slog.LevelDebug).With("a", 1)
	left, right := base.With("b", 1), base.With("c", 1)
	left.Info("left", "c", 2)
	right.Info("right", "b", 2)
	require.Contains(t, out.String(), `"msg":"left","a":1,"b":1,"c":2}`)
	require.Contains(t, out.String(), `"msg":"right","a":1,"c":1,"b":2}`)
	base.Debug("debug")
	require.Contains(t, out.String(), "debug")
}

func BenchmarkNew(b *testing.B) {
	for name, plain := range map[string]bool{"unique": false, "slog": true} {
		b.Run(name, func(b *testing.B) {
			logger := logging.New(discard{}, logging.FormatJSON, slog.LevelInfo)
			if plain {
				logger = slog.New(slog.NewJSONHandler(discard{}, nil))
			}
			logger = logger.With("component", "gateway")
			b.ReportAllocs()
			for b.Loop() {
				logger.Info("request", "request_id", "abc", "method", "GET", "route", "/api/v1/runs", "status", 200, "bytes", 17, "subject", "ann")
			}
		})
	}
}

// discard is not io.Discard, which slog recognizes.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
