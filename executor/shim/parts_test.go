package shim

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

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
		fmt.Sprintf(`{"v":%d,"first_frame":1,"definition":{"steps":[{}]}}`, run.NewestSpecVersion+1),
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

func TestShortReason(t *testing.T) {
	t.Parallel()
	require.Equal(t, "short", shortReason("short"))
	long := shortReason(strings.Repeat("ä", run.MaxReason))
	require.LessOrEqual(t, len(long), run.MaxReason)
	require.Equal(t, "ä...", long[len(long)-5:])
	require.True(t, bytes.HasPrefix([]byte(long), []byte("ä")))
}
