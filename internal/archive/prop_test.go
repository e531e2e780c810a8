package archive_test

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drover-run/drover/internal/archive"
)

func reader(data []byte) io.Reader { return bytes.NewReader(data) }

// Unpacking restores all packed files.
func TestRoundTrip_of_any_files(t *testing.T) {
	t.Parallel()
	element := rapid.StringMatching(`[a-z *?{}!\[\]\\é]{1,12}`).Filter(func(s string) bool { return strings.TrimSpace(s) != "" })
	long := rapid.StringMatching(`[a-z]{100,200}`)
	rapid.Check(t, func(t *rapid.T) {
		from, to := tempDir(t), tempDir(t)
		for range rapid.IntRange(0, 12).Draw(t, "entries") {
			at := from
			for range rapid.IntRange(1, 4).Draw(t, "depth") {
				at = filepath.Join(at, rapid.OneOf(element, element, long).Draw(t, "name"))
			}
			if os.MkdirAll(filepath.Dir(at), 0o755) != nil {
				continue // a file exists
			}
			// Errors for existing files are expected.
			switch rapid.IntRange(0, 4).Draw(t, "kind") {
			case 0:
				_ = os.Mkdir(at, fs.FileMode(rapid.IntRange(0, 0o777).Draw(t, "mode"))|0o700)
			case 1:
				_ = os.Symlink(element.Draw(t, "target"), at)
			case 2:
				if old := anyFile(from); old != "" {
					_ = os.Link(old, at)
				}
			default:
				content := bytes.Repeat([]byte(element.Draw(t, "content")), rapid.IntRange(0, 20_000).Draw(t, "times"))
				if os.WriteFile(at, content, 0o600) == nil {
					_ = os.Chmod(at, fs.FileMode(rapid.IntRange(0, 0o777).Draw(t, "mode"))|0o400)
				}
			}
		}
		var out bytes.Buffer
		packed, err := archive.Pack(t.Context(), &out, archive.Selection{Root: from}, archive.Limits{})
		require.NoError(t, err)
		unpacked, err := archive.Unpack(t.Context(), to, &out, archive.Unpacking{})
		require.NoError(t, err)
		require.Equal(t, packed, unpacked)
		require.Empty(t, cmp.Diff(listing(t, from), listing(t, to)))
	})
}

func tempDir(t *rapid.T) string {
	dir, err := os.MkdirTemp("", "drover-archive-*")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func anyFile(dir string) (found string) {
	_ = filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			found = at
			return fs.SkipAll
		}
		return nil
	})
	return found
}

func listing(t *rapid.T, dir string) map[string]string {
	found := make(map[string]string)
	require.NoError(t, filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		if err != nil || at == dir {
			return err
		}
		info, err := e.Info()
		require.NoError(t, err)
		text := info.Mode().String() + info.ModTime().String()
		switch {
		case info.Mode().IsRegular():
			content, err := os.ReadFile(at)
			require.NoError(t, err)
			text += string(content)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(at)
			require.NoError(t, err)
			text = target
		}
		found[strings.TrimPrefix(at, dir)] = text
		return nil
	}))
	return found
}

// Unpacking an arbitrary stream ends, and changes nothing outside the
// directory.
func FuzzUnpack(f *testing.F) {
	from := f.TempDir()
	write(f, from, "a", "dir/b", "link -> ..", "empty/")
	require.NoError(f, os.Link(filepath.Join(from, "a"), filepath.Join(from, "z")))
	var plain bytes.Buffer
	tree, err := archive.Tree(f.Context(), from)
	require.NoError(f, err)
	_, err = io.Copy(&plain, tree)
	require.NoError(f, err)
	f.Add(plain.Bytes(), false)
	f.Add(pack(f, archive.Selection{Root: from}), true)
	f.Add(forge(f, entry{name: "a", link: "..", kind: '2'}, entry{name: "a/victim", kind: '0', content: "x"}), true)
	f.Fuzz(func(t *testing.T, data []byte, compressed bool) {
		outside := t.TempDir()
		write(t, outside, "victim")
		limits := archive.Limits{Entries: 1000, Bytes: 1 << 20}
		read := archive.UnpackTar
		if compressed {
			read = archive.Unpack
			_ = archive.List(t.Context(), bytes.NewReader(data), archive.Limits{}, func(archive.Entry, io.Reader) bool { return true })
		}
		_, _ = read(t.Context(), filepath.Join(outside, "inside"), bytes.NewReader(data), archive.Unpacking{Limits: limits})
		left, err := os.ReadDir(outside)
		require.NoError(t, err)
		for _, e := range left {
			require.Contains(t, []string{"victim", "inside"}, e.Name())
		}
		content, err := os.ReadFile(filepath.Join(outside, "victim"))
		require.NoError(t, err)
		require.Equal(t, "victim", string(content))
		info, err := os.Stat(filepath.Join(outside, "victim"))
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o644), info.Mode())
	})
}
