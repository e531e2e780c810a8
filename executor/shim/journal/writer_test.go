package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
)

func frames(t testing.TB, dir string, from int64) []run.Frame {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, File))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	var out []run.Frame
	for frame, err := range Scan(f, from) {
		require.NoError(t, err)
		out = append(out, frame)
	}
	return out
}

func TestJournal_numbers_are_dense_with_concurrent_writers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j, err := Create(dir, Options{First: 7})
	require.NoError(t, err)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 50 {
				f := run.Frame{Kind: run.FrameOutput, Time: time.Now(), Data: []byte("x")}
				if i%2 == 0 {
					j.Add(f)
				} else {
					j.Append(f, f)
				}
			}
		})
	}
	all.Wait()
	j.Append(run.Frame{Kind: run.FrameTaskEnd, Time: time.Now()})
	j.Append(run.Frame{Kind: run.FrameOutput, Time: time.Now()})
	require.NoError(t, j.Close())
	got := frames(t, dir, 1)
	require.Len(t, got, 8*75+1, "nothing comes after the end")
	for i, f := range got {
		require.Equal(t, int64(7+i), f.N)
		require.Equal(t, f.Kind.Version(), f.Version)
	}
}

func TestJournal_added_frames_are_written_soon(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j, err := Create(dir, Options{First: 1})
	require.NoError(t, err)
	j.Add(run.Frame{Kind: run.FrameStepStart, Time: time.Now()})
	testenv.Await(t, func() (bool, string) { return len(frames(t, dir, 1)) == 1, "no frame" })
	require.NoError(t, j.Close())
}

func TestJournal_is_begun_once(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j, err := Create(dir, Options{First: 1})
	require.NoError(t, err)
	require.NoError(t, j.Close())
	_, err = Create(dir, Options{First: 1})
	require.ErrorIs(t, err, ErrExists)
}

func TestJournal_waits_while_the_disk_is_full(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		testenv.HostLacks(t, "/dev/full")
	}
	defer func() { require.NoError(t, full.Close()) }()
	dir := t.TempDir()
	j, err := Create(dir, Options{First: 1})
	require.NoError(t, err)
	j.Append(run.Frame{Kind: run.FrameStepStart, Time: time.Now()})
	disk := j.file
	j.file = full
	j.buf = append(j.buf, "a frame\n"...)
	require.Error(t, j.write())
	require.Error(t, j.write())
	j.file, j.buf = disk, j.buf[:0]
	j.Append(run.Frame{Kind: run.FrameStepEnd, Time: time.Now()})
	require.NoError(t, j.Close())
	require.Len(t, frames(t, dir, 1), 2, "a failed write leaves nothing behind")
}

// blocked is a writer that blocks until it is opened.
type blocked struct {
	open chan struct{}
	mu   sync.Mutex
	got  bytes.Buffer
}

func (w *blocked) Write(p []byte) (int, error) {
	<-w.open
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.got.Write(p)
}

func (w *blocked) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.got.String()
}

func TestStdoutCopy_never_blocks_and_keeps_the_newest(t *testing.T) {
	t.Parallel()
	w := &blocked{open: make(chan struct{})}
	c := NewCopy(w, "nonce")
	line := strings.Repeat("x", 4000)
	const many = 1000 // 4 MB, far over the buffer
	for i := range many {
		c.add([]byte(line+itoa(i)+"\n"), false)
	}
	c.add([]byte(strings.Repeat("y", maxCopyLine)+"\n"), false)
	close(w.open)
	testenv.Await(t, func() (bool, string) {
		return strings.HasSuffix(w.String(), line+itoa(many-1)+"\n"), "the newest frame never came"
	})
	require.NotContains(t, w.String(), "y", "too long for the copy")
	require.Less(t, len(w.String()), 2*maxCopyBacklog+2*maxCopyLine)
	for l := range strings.Lines(w.String()) {
		require.True(t, strings.HasPrefix(l, "nonce "))
	}
	c.add([]byte(strings.Repeat("z", 2*maxCopyLine)+"\n"), true)
	c.Close(nil)
	require.True(t, strings.HasSuffix(w.String(), "z\n"), "the end is copied at any length")
}

func itoa(n int) string {
	return string(rune('a'+n/100%10)) + string(rune('a'+n/10%10)) + string(rune('a'+n%10))
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestStdoutCopy_survives_its_reader(t *testing.T) {
	t.Parallel()
	c := NewCopy(brokenWriter{}, "nonce")
	for range 1000 {
		c.add([]byte("line\n"), false)
	}
	c.add([]byte("end\n"), true)
	c.Close(nil)
}

// TestJournal_limit writes output up to the limit, to the byte, then one line that
// reports it, and all other frames.
func TestJournal_limit(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limit  int64
		writes []string
		want   string
	}{
		"none":           {0, []string{"abc", "def"}, "abcdef"},
		"not reached":    {6, []string{"abc", "def"}, "abcdef"},
		"within a line":  {5, []string{"abc", "def", "ghi"}, "abcde\ndrover: the log ends here, at its limit of 5 bytes; the task continues\n"},
		"between lines":  {4, []string{"abc\n", "def", "ghi"}, "abc\ndrover: the log ends here, at its limit of 4 bytes; the task continues\n"},
		"by large write": {1 << 20, []string{strings.Repeat("x", 1<<20) + "y"}, strings.Repeat("x", 1<<20) + "\ndrover: the log ends here, at its limit of 1 MiB; the task continues\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			j, err := Create(dir, Options{First: 1, LogLimit: tt.limit})
			require.NoError(t, err)
			for _, text := range tt.writes {
				j.Append(run.Frame{Kind: run.FrameOutput, Stream: run.StreamStdout, Data: []byte(text)})
			}
			j.Append(run.Frame{Kind: run.FrameStepEnd}, run.Frame{Kind: run.FrameTaskEnd})
			require.NoError(t, j.Close())
			got := frames(t, dir, 1)
			var text string
			for i, f := range got {
				require.Equal(t, int64(i+1), f.N)
				text += string(f.Data)
			}
			require.Equal(t, tt.want, text)
			require.Equal(t, run.FrameTaskEnd, got[len(got)-1].Kind)
			require.Equal(t, run.FrameStepEnd, got[len(got)-2].Kind)
		})
	}
}
