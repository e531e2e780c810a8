package engine_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/engine/archives"
	"github.com/drover-run/drover/run"
)

// tarOf returns an archive with the given headers and content of zeros, and
// with a report at its end.
func tarOf(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out)
	require.NoError(t, err)
	w := tar.NewWriter(z)
	for _, h := range append(headers, tar.Header{Name: "last.xml", Size: int64(len(report))}) {
		h.Typeflag, h.Mode = tar.TypeReg, 0o644
		require.NoError(t, w.WriteHeader(&h))
		var content io.Reader = bytes.NewReader(make([]byte, h.Size))
		if h.Name == "last.xml" {
			content = strings.NewReader(report)
		}
		_, err := io.Copy(w, content)
		require.NoError(t, err)
	}
	require.NoError(t, errors.Join(w.Close(), z.Close()))
	return out.Bytes()
}

// An artifact that is large when decompressed is kept, and can be read whole; a
// file of it and its reports cannot be read.
func TestArtifacts_of_much_content(t *testing.T) {
	t.Parallel()
	d := newArchiveBench(t, archives.Options{Limits: run.ArchiveLimits{Size: 1 << 20, Bytes: 1 << 20}})
	key, _ := d.begin(t, "/a/b", false)
	content := tarOf(t, tar.Header{Name: "zeros", Size: 32 << 20})
	d.save(t, key, stepArtifact, "", content)
	const want = "the files of the archive have more than 1048576 bytes"
	list, err := d.Artifacts(t.Context(), key.Run)
	require.NoError(t, err)
	require.Equal(t, []string{"not all reports were read: " + want}, list[0].Tests.Faults)

	ref := run.ArtifactRef{Run: key.Run, Task: "a", Name: "report"}
	for _, path := range []string{"zeros", "last.xml"} {
		_, _, err = d.OpenArtifactFile(t.Context(), ref, path)
		require.EqualError(t, err, want)
		require.Equal(t, run.CodeTooLarge, run.CodeOf(err))
	}
	_, _, err = d.ArtifactEntries(t.Context(), ref, 10)
	require.EqualError(t, err, want)
	_, whole, err := d.OpenArtifact(t.Context(), ref, 0)
	require.NoError(t, err)
	data, err := io.ReadAll(whole)
	require.NoError(t, errors.Join(err, whole.Close()))
	require.Equal(t, content, data)
}

// A list is in memory as a whole, names included.
func TestArtifactEntries_of_long_names(t *testing.T) {
	t.Parallel()
	d := newArchiveBench(t, archives.Options{})
	key, _ := d.begin(t, "/a/b", false)
	headers := make([]tar.Header, 100)
	for i := range headers {
		headers[i].Name = fmt.Sprint(i, "/") + strings.Repeat("x", 500<<10)
	}
	d.save(t, key, stepArtifact, "", tarOf(t, headers...))
	list, more, err := d.ArtifactEntries(t.Context(), run.ArtifactRef{Run: key.Run, Task: "a", Name: "report"}, 1000)
	require.NoError(t, err)
	require.True(t, more)
	require.Len(t, list, 8)
}

// Files that are read to their end, or closed early, make room for others.
func TestOpenArtifactFile_often(t *testing.T) {
	t.Parallel()
	d := newArchiveBench(t, archives.Options{})
	key, _ := d.begin(t, "/a/b", false)
	d.save(t, key, stepArtifact, "", tarOf(t))
	ref := run.ArtifactRef{Run: key.Run, Task: "a", Name: "report"}
	for range 100 {
		_, file, err := d.OpenArtifactFile(t.Context(), ref, "last.xml")
		require.NoError(t, err)
		require.NoError(t, file.Close())
		_, _, err = d.OpenArtifactFile(t.Context(), ref, "none")
		require.Equal(t, run.CodeNotFound, run.CodeOf(err))
	}
}
