package shim

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/run"
)

func TestReadOutputs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		content string
		want    map[string]string
		fault   string
	}{
		"empty":           {"", nil, ""},
		"lines":           {"a=1\nb.c-d_E9=2=3\r\n\n  \nlast=", map[string]string{"a": "1", "b.c-d_E9": "2=3", "last": ""}, ""},
		"several lines":   {"a<<EOF\nx=1\r\n\ny\nEOF\nb=2\nc<<E\nE\n", map[string]string{"a": "x=1\r\n\ny", "b": "2", "c": ""}, ""},
		"looks like it":   {"a=<<EOF\nb=1<<2\n", map[string]string{"a": "<<EOF", "b": "1<<2"}, ""},
		"without end":     {"a=1\nb<<EOF\nx\n", nil, `line 2 of $DROVER_OUTPUT is "EOF"`},
		"without word":    {"b<<\nx\n", nil, "line 1"},
		"the last counts": {"a=1\na=2\n", map[string]string{"a": "2"}, ""},
		"bytes":           {"a=\xff\n", map[string]string{"a": "\uFFFD"}, ""},
		"no equals sign":  {"a=1\nwords\n", nil, "line 2"},
		"bad key":         {"1a=1\n", nil, "line 1"},
		"key with spaces": {"a b=1\n", nil, "line 1"},
		"over the budget": {"a=" + strings.Repeat("x", 100), nil, "put out too much"},
		"far too large":   {strings.Repeat("a=x\n", run.MaxOutputBytes), nil, "put out too much"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "out")
			require.NoError(t, os.WriteFile(path, []byte(tt.content), 0o600))
			got, err := readOutputs(path, 100)
			if tt.fault != "" {
				require.ErrorContains(t, err, tt.fault)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
	t.Run("removed", func(t *testing.T) {
		t.Parallel()
		got, err := readOutputs(filepath.Join(t.TempDir(), "out"), 100)
		require.NoError(t, err)
		require.Empty(t, got)
	})
	t.Run("a link to elsewhere", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "out")
		require.NoError(t, os.Symlink("/etc/passwd", path))
		_, err := readOutputs(path, 100)
		require.ErrorContains(t, err, "not a regular file")
	})
}

func TestReadOrder(t *testing.T) {
	t.Parallel()
	whole := `{"v":1,"first_frame":1,"definition":{"steps":[{"script":"true"}]}}`
	o, err := ReadOrder(strings.NewReader(whole + " and what follows"))
	require.NoError(t, err)
	require.Equal(t, run.DefaultShell(), o.Definition.Shell)
	require.Equal(t, run.WhenOnSuccess, o.Definition.Steps[0].When)
	for i := range len(whole) {
		_, err := ReadOrder(strings.NewReader(whole[:i]))
		require.Error(t, err, "a part is never taken for the whole")
	}
	for _, text := range []string{
		`{"v":5,"first_frame":1,"definition":{"steps":[{}]}}`,
		`{"v":1,"first_frame":0,"definition":{"steps":[{}]}}`,
		`{"v":1,"first_frame":1,"definition":{}}`,
		`{"v":1,"first_frame":1,"definition":{"steps":[{"when":"never"}]}}`,
		`{"v":1,"first_frame":1,"definition":{"steps":[{"streams":"both"}]}}`,
	} {
		_, err := ReadOrder(strings.NewReader(text))
		require.Error(t, err, text)
	}
}

func TestControl(t *testing.T) {
	t.Parallel()
	stopped := func(c *control) bool {
		select {
		case <-c.stopped:
			return true
		default:
			return false
		}
	}
	acknowledged := func(c *control) bool {
		select {
		case <-c.acknowledged:
			return true
		default:
			return false
		}
	}
	t.Run("a signal is a stop before the end, the acknowledgment after", func(t *testing.T) {
		t.Parallel()
		c := newControl(Options{Dir: t.TempDir()}, time.Minute)
		require.False(t, stopped(c))
		c.signal(false)
		require.True(t, stopped(c))
		require.False(t, c.isExternal())
		require.Equal(t, time.Minute, c.grace())
		require.False(t, acknowledged(c))
		c.end()
		c.signal(false)
		c.signal(false)
		require.True(t, acknowledged(c))
	})
	t.Run("no stop after the end", func(t *testing.T) {
		t.Parallel()
		c := newControl(Options{Dir: t.TempDir(), Host: true}, time.Minute)
		c.end()
		c.signal(true)
		require.False(t, stopped(c))
		require.True(t, acknowledged(c))
	})
	t.Run("the file sets the grace", func(t *testing.T) {
		t.Parallel()
		c := newControl(Options{Dir: t.TempDir(), Host: true}, time.Minute)
		c.checkStopFile()
		require.False(t, stopped(c))
		require.NoError(t, WriteStop(c.dir, StopRequest{Grace: time.Second}))
		c.checkStopFile()
		require.True(t, stopped(c))
		require.Equal(t, time.Second, c.grace())
		require.NoError(t, WriteStop(c.dir, StopRequest{}))
		c.signal(false)
		require.Zero(t, c.grace(), "a later request may shorten the grace")
		require.NoError(t, WriteStop(c.dir, StopRequest{Grace: time.Hour}))
		c.signal(false)
		require.Zero(t, c.grace(), "but not extend it")
	})
	t.Run("a stop does not take back an abort that was not read", func(t *testing.T) {
		t.Parallel()
		c := newControl(Options{Dir: t.TempDir(), Host: true}, time.Minute)
		require.NoError(t, WriteStop(c.dir, StopRequest{Grace: time.Second, Abort: true}))
		require.NoError(t, WriteStop(c.dir, StopRequest{Grace: time.Hour}))
		c.signal(true)
		require.True(t, c.isAborted())
		require.Equal(t, time.Second, c.grace())
	})
	t.Run("on a host another process may stop", func(t *testing.T) {
		t.Parallel()
		c := newControl(Options{Dir: t.TempDir(), Host: true}, time.Minute)
		c.signal(false)
		require.True(t, stopped(c))
		require.True(t, c.isExternal())
		c.signal(true)
		require.False(t, c.isExternal(), "unless Drover requests it too")
	})
}

func TestWorkingDir(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	o := run.ShimSpec{WorkingDir: base}
	for _, tt := range []struct{ task, step, want string }{
		{"", "", base},
		{"a", "", base + "/a"},
		{"a", "b/c", base + "/a/b/c"},
		{"a", base + "/d", base + "/d"},
		{base + "/e", "f", base + "/e/f"},
	} {
		o.Definition.WorkingDir = tt.task
		got, err := workingDir(o, process.Account{}, run.StepDef{WorkingDir: tt.step})
		require.NoError(t, err)
		require.Equal(t, tt.want, got)
		require.DirExists(t, got)
	}
	require.NoError(t, os.WriteFile(base+"/file", nil, 0o600))
	_, err := workingDir(o, process.Account{}, run.StepDef{WorkingDir: base + "/file"})
	require.ErrorContains(t, err, "not a directory")
	_, err = workingDir(o, process.Account{}, run.StepDef{WorkingDir: base + "/file/below"})
	require.Error(t, err)
}

func TestShortReason(t *testing.T) {
	t.Parallel()
	require.Equal(t, "short", shortReason("short"))
	long := shortReason(strings.Repeat("ä", run.MaxReason))
	require.LessOrEqual(t, len(long), run.MaxReason)
	require.Equal(t, "ä...", long[len(long)-5:])
	require.True(t, bytes.HasPrefix([]byte(long), []byte("ä")))
}
