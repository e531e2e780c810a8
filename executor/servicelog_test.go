package executor_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/run"
)

// TestServiceLog: no line is cut, as a mask does not recognize a part of a secret. A piece
// that begins with ! is of standard error.
func TestServiceLog(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		pieces     []string
		clip, fail bool
		want       string
		cut        bool
	}{
		"all":                                  {pieces: []string{"one\n", "!two\n", "three"}, want: "one\n|!two\n|three"},
		"the first lines":                      {pieces: []string{"one\n", "two\n", "0123456789\n"}, want: "two\n|0123456789\n", cut: true},
		"a long line":                          {pieces: []string{"one\n", strings.Repeat("x", 16), "end\n", "two\n"}, want: "two\n", cut: true},
		"an endless line":                      {pieces: []string{"one\n", strings.Repeat("x", 16), "x"}, cut: true},
		"a line of two pieces around another":  {pieces: []string{"secr", "!error\n", "et\n", "next\n"}, want: "!error\n|next\n", cut: true},
		"a line around another that continues": {pieces: []string{"secr", "!a line\n", "!error\n", "et\n", "next\n"}, want: "!error\n|next\n", cut: true},
		"a log that may begin within a line":   {pieces: []string{"cret\n", "!cret\n", "!next\n"}, clip: true, want: "!next\n", cut: true},
		"a log whose end is missing":           {pieces: []string{"one\n", "secr", "!err\n", "e"}, fail: true, want: "one\n|!err\n"},
		"a log that was not read":              {fail: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failure := errors.New("failed")
			logs, err := executor.ReadServiceLogs([]string{"web", "db"}, func(i int, l *executor.ServiceLog) error {
				if i == 1 {
					return nil
				}
				for _, text := range c.pieces {
					p := executor.LogPiece{Stream: run.StreamStdout, Data: []byte(text)}
					if strings.HasPrefix(text, "!") {
						p.Stream = run.StreamStderr
					}
					l.Add(p, 15)
				}
				if c.clip {
					l.Clip()
				}
				if c.fail {
					return failure
				}
				return nil
			})
			require.Equal(t, c.fail, errors.Is(err, failure))
			require.Len(t, logs, 2)
			require.Equal(t, "db", logs[0].Service)
			require.False(t, logs[0].Broken)
			var got []string
			for p := range slices.Values(logs[1].Pieces) {
				got = append(got, string(p.Data))
			}
			require.Equal(t, c.want, strings.Join(got, "|"))
			require.Equal(t, c.cut, logs[1].Cut)
			require.Equal(t, c.fail, logs[1].Broken)
		})
	}
}

// TestReadServiceLogs: a log that hangs delays no other one.
func TestReadServiceLogs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		read := make(chan struct{})
		logs, err := executor.ReadServiceLogs([]string{"a", "b"}, func(i int, l *executor.ServiceLog) error {
			if i == 0 {
				<-read
				return errors.New("it takes too long")
			}
			l.Add(executor.LogPiece{Data: []byte("text\n")}, 10)
			close(read)
			return nil
		})
		require.ErrorContains(t, err, "it takes too long")
		require.Len(t, logs[1].Pieces, 1)
	})
}
