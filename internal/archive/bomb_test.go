package archive_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/archive"
	"github.com/drover-run/drover/run"
)

// compressed returns the output of fill as an archive.
func compressed(t testing.TB, fill func(w *tar.Writer), options ...zstd.EOption) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out, options...)
	require.NoError(t, err)
	w := tar.NewWriter(z)
	fill(w)
	require.NoError(t, errors.Join(w.Close(), z.Close()))
	return out.Bytes()
}

// addFile adds a file of zeros.
func addFile(t testing.TB, w *tar.Writer, name string, size int64, records map[string]string) {
	t.Helper()
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size, PAXRecords: records}))
	_, err := io.CopyN(w, zeros{}, size)
	require.NoError(t, err)
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// The decompressed size of an archive is bounded in every way of reading it.
func TestLimits_of_bombs(t *testing.T) {
	t.Parallel()
	limits := archive.Limits{Entries: 1000, Bytes: 1 << 20}
	for name, tt := range map[string]struct {
		data []byte
		want string
	}{
		"content": {
			compressed(t, func(w *tar.Writer) { addFile(t, w, "big", 64<<20, nil); addFile(t, w, "last", 0, nil) }),
			"the files of the archive have more than 1048576 bytes",
		},
		"entries": {
			compressed(t, func(w *tar.Writer) {
				for i := range 1001 {
					addFile(t, w, strconv.Itoa(i), 0, nil)
				}
				addFile(t, w, "last", 0, nil)
			}),
			"the archive has more than 1000 entries",
		},
		"headers": {
			compressed(t, func(w *tar.Writer) {
				for i := range 50 {
					addFile(t, w, strconv.Itoa(i), 0, map[string]string{"DROVER.x": strings.Repeat("x", 900<<10)})
				}
				addFile(t, w, "last", 0, nil)
			}),
			"the archive has more than 6193152 bytes when it is decompressed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Less(t, len(tt.data), 1<<20, "it is small")
			_, err := archive.Open(t.Context(), bytes.NewReader(tt.data), "last", limits)
			require.ErrorContains(t, err, tt.want)
			require.Equal(t, run.CodeTooLarge, run.CodeOf(err))
			err = archive.List(t.Context(), bytes.NewReader(tt.data), limits, func(archive.Entry, io.Reader) bool { return true })
			require.ErrorContains(t, err, tt.want)
			_, err = archive.Unpack(t.Context(), t.TempDir(), bytes.NewReader(tt.data), archive.Unpacking{Limits: limits})
			require.ErrorContains(t, err, tt.want)
			require.Equal(t, run.CodeTooLarge, run.CodeOf(err))
		})
	}
}

// A window takes memory, so its size is bounded too.
func TestOpen_refuses_a_large_window(t *testing.T) {
	t.Parallel()
	data := compressed(t, func(w *tar.Writer) { addFile(t, w, "a", 64<<20, nil) }, zstd.WithWindowSize(64<<20))
	_, err := archive.Open(t.Context(), bytes.NewReader(data), "a", archive.Limits{})
	require.ErrorContains(t, err, "window size exceeded")
	require.Equal(t, run.CodeInvalid, run.CodeOf(err))
}

// Empty frames take only time: the decompressor must stop without returning to
// its caller.
func TestOpen_ends_with_its_context(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	frame := binary.LittleEndian.AppendUint32([]byte{0x50, 0x2a, 0x4d, 0x18}, size) // skippable
	frame = append(frame, make([]byte, size)...)
	ctx, cancel := context.WithCancel(t.Context())
	read := 0
	endless := readerFunc(func(b []byte) (int, error) {
		n := copy(b, frame[read%len(frame):])
		if read += n; read > 8<<20 {
			cancel()
		}
		if read > 64<<20 {
			return 0, errors.New("the reader was not stopped")
		}
		return n, nil
	})
	_, err := archive.Open(ctx, endless, "a", archive.Limits{})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, run.CodeCanceled, run.CodeOf(err))
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
