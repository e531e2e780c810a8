package archive_test

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/archive"
	"github.com/drover-run/drover/run"
)

// tree lists the files below a directory: the mode, and the content or the
// target.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	require.NoError(t, filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		if err != nil || at == dir {
			return err
		}
		rel, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(at)
			if err != nil {
				return err
			}
			text = "-> " + target
		case info.Mode().IsRegular():
			content, err := os.ReadFile(at)
			if err != nil {
				return err
			}
			text += " " + string(content)
		}
		found[filepath.ToSlash(rel)] = text
		return nil
	}))
	return found
}

// names lists the names below a directory, directories with a slash.
func names(t testing.TB, dir string) []string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		if err != nil || at == dir {
			return err
		}
		rel, err := filepath.Rel(dir, at)
		if e.IsDir() {
			rel += "/"
		}
		found = append(found, filepath.ToSlash(rel))
		return err
	}))
	return found
}

// write creates files: "name/" is a directory, "name -> target" a link.
func write(t testing.TB, dir string, files ...string) {
	t.Helper()
	for _, f := range files {
		name, target, isLink := strings.Cut(f, " -> ")
		at := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		switch {
		case isLink:
			require.NoError(t, os.Symlink(target, at))
		case strings.HasSuffix(f, "/"):
			require.NoError(t, os.MkdirAll(at, 0o755))
		default:
			require.NoError(t, os.WriteFile(at, []byte(name), 0o644))
		}
	}
}

func pack(t testing.TB, s archive.Selection) []byte {
	t.Helper()
	var out bytes.Buffer
	_, err := archive.Pack(t.Context(), &out, s, archive.Limits{})
	require.NoError(t, err)
	return out.Bytes()
}

func unpack(t testing.TB, dir string, data []byte) archive.Stats {
	t.Helper()
	stats, err := archive.Unpack(t.Context(), dir, bytes.NewReader(data), archive.Unpacking{})
	require.NoError(t, err)
	return stats
}

func TestPack_selects(t *testing.T) {
	t.Parallel()
	files := []string{
		"a.txt", "b.go", "bin/", "bin/tool", "bin/lib/x.so", "bin/lib/x.o", "node_modules/p/index.js", "src/a/a.go", "src/a/a_test.go",
		"src/b/deep/er/b.go", "empty/", ".hidden/file", "link -> a.txt", "[odd]/f",
	}
	for name, tt := range map[string]struct {
		paths []string
		to    string
		want  []string
	}{
		"everything by default": {nil, "", []string{
			".hidden/", ".hidden/file", "[odd]/", "[odd]/f", "a.txt", "b.go", "bin/", "bin/lib/", "bin/lib/x.o", "bin/lib/x.so", "bin/tool", "empty/", "link",
			"node_modules/", "node_modules/p/", "node_modules/p/index.js", "src/", "src/a/", "src/a/a.go", "src/a/a_test.go", "src/b/", "src/b/deep/",
			"src/b/deep/er/", "src/b/deep/er/b.go",
		}},
		"a file":                              {[]string{"a.txt"}, "", []string{"a.txt"}},
		"a directory with all in it":          {[]string{"bin"}, "", []string{"bin/", "bin/lib/", "bin/lib/x.o", "bin/lib/x.so", "bin/tool"}},
		"with a slash":                        {[]string{"./bin/"}, "", []string{"bin/", "bin/lib/", "bin/lib/x.o", "bin/lib/x.so", "bin/tool"}},
		"one level":                           {[]string{"*.go"}, "", []string{"b.go"}},
		"any level":                           {[]string{"**/*.go"}, "", []string{"b.go", "src/", "src/a/", "src/a/a.go", "src/a/a_test.go", "src/b/", "src/b/deep/", "src/b/deep/er/", "src/b/deep/er/b.go"}},
		"alternatives":                        {[]string{"bin/lib/*.{so,dll}", "src/{a,z}/a.go"}, "", []string{"bin/", "bin/lib/", "bin/lib/x.so", "src/", "src/a/", "src/a/a.go"}},
		"without":                             {[]string{"src", "!**/*_test.go", "!src/b"}, "", []string{"src/", "src/a/", "src/a/a.go"}},
		"the last one decides":                {[]string{"bin", "!bin/lib", "bin/lib/x.o"}, "", []string{"bin/", "bin/lib/", "bin/lib/x.o", "bin/tool"}},
		"only exclusions":                     {[]string{"!node_modules", "!src", "!bin", "!.hidden", "![[]odd]"}, "", []string{"a.txt", "b.go", "empty/", "link"}},
		"below a directory":                   {[]string{"bin/tool"}, "out/x", []string{"out/", "out/x/", "out/x/bin/", "out/x/bin/tool"}},
		"a name with signs of globs, escaped": {[]string{`\[odd\]`}, "", []string{"[odd]/", "[odd]/f"}},
		"an empty directory":                  {[]string{"empty"}, "", []string{"empty/"}},
		"nothing":                             {[]string{"nothing/**"}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := t.TempDir(), t.TempDir()
			write(t, from, files...)
			unpack(t, to, pack(t, archive.Selection{Root: from, Paths: tt.paths, To: tt.to}))
			require.Empty(t, cmp.Diff(tt.want, names(t, to)))
		})
	}
}

func TestPack_takes_absolute_globs(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	write(t, from, "a", "sub/b")
	unpack(t, to, pack(t, archive.Selection{Root: "/", Paths: []string{from + "/sub/**", "!" + from + "/a"}}))
	require.FileExists(t, filepath.Join(to, from, "sub/b"))
	require.NoFileExists(t, filepath.Join(to, from, "a"))
}

func TestPack_excludes_directories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a", "own/hidden/key", "own/hidden/deep/key", "own/seen")
	hidden := filepath.Join(dir, "own", "hidden")
	require.NoError(t, os.Symlink("own/hidden", filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink(dir, filepath.Join(dir, "self")))
	excluded := []string{hidden, filepath.Join(dir, "gone")}
	for name, s := range map[string]archive.Selection{
		"everything":     {Root: dir},
		"all by a glob":  {Root: dir, Paths: []string{"**"}},
		"by its name":    {Root: dir, Paths: []string{"a", "own/seen", "own/hidden/**", "own/hidden/key", "link", "self"}},
		"through a link": {Root: filepath.Join(dir, "self")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.Exclude = excluded
			to := t.TempDir()
			unpack(t, to, pack(t, s))
			require.Equal(t, []string{"a", "link", "own/", "own/seen", "self"}, names(t, to))
		})
	}
	for _, root := range []string{hidden, filepath.Join(hidden, "deep"), filepath.Join(dir, "link"), filepath.Join(dir, "self", "link", "deep")} {
		_, err := archive.Pack(t.Context(), io.Discard, archive.Selection{Root: root, Exclude: excluded}, archive.Limits{})
		require.Equal(t, run.CodeInvalid, run.CodeOf(err), "%s: %v", root, err)
	}
}

func TestPack_errors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a", "b", "c")
	for name, tt := range map[string]struct {
		s    archive.Selection
		l    archive.Limits
		want run.Code
	}{
		"no root":            {archive.Selection{Root: filepath.Join(dir, "none")}, archive.Limits{}, run.CodeNotFound},
		"out of the root":    {archive.Selection{Root: dir, Paths: []string{"a/../../b"}}, archive.Limits{}, run.CodeInvalid},
		"beside the root":    {archive.Selection{Root: dir, Paths: []string{dir + "x/a"}}, archive.Limits{}, run.CodeInvalid},
		"no glob":            {archive.Selection{Root: dir, Paths: []string{"[a"}}, archive.Limits{}, run.CodeInvalid},
		"empty glob":         {archive.Selection{Root: dir, Paths: []string{""}}, archive.Limits{}, run.CodeInvalid},
		"out of the archive": {archive.Selection{Root: dir, To: "../x"}, archive.Limits{}, run.CodeInvalid},
		"absolute":           {archive.Selection{Root: dir, To: "/x"}, archive.Limits{}, run.CodeInvalid},
		"too many":           {archive.Selection{Root: dir}, archive.Limits{Entries: 2}, run.CodeTooLarge},
		"too large":          {archive.Selection{Root: dir}, archive.Limits{Bytes: 2}, run.CodeTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			_, err := archive.Pack(t.Context(), &out, tt.s, tt.l)
			require.Equal(t, tt.want, run.CodeOf(err), "%v", err)
			_, err = archive.Unpack(t.Context(), t.TempDir(), &out, archive.Unpacking{})
			require.Error(t, err, "the output must not be a valid archive")
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := archive.Pack(ctx, io.Discard, archive.Selection{Root: dir}, archive.Limits{})
	require.Equal(t, run.CodeCanceled, run.CodeOf(err))
}

func TestRoundTrip_keeps(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	write(t, from, "plain", "run.sh", "ro/file", "ro/sub/file", "many", "empty/", "to -> plain", "dangling -> nowhere", "absolute -> /etc/passwd", "up -> ../../..", "sticky/")
	require.NoError(t, os.Chmod(filepath.Join(from, "run.sh"), 0o751))
	require.NoError(t, os.Chmod(filepath.Join(from, "plain"), 0o400))
	require.NoError(t, os.Chmod(filepath.Join(from, "sticky"), 0o777|fs.ModeSticky))
	require.NoError(t, os.Link(filepath.Join(from, "many"), filepath.Join(from, "zzz")))
	require.NoError(t, os.Link(filepath.Join(from, "many"), filepath.Join(from, "empty", "again")))
	stamp := time.Date(2020, 2, 3, 4, 5, 6, 789000, time.UTC)
	for _, name := range []string{"plain", "ro/sub/file", "ro/sub", "ro"} {
		require.NoError(t, os.Chtimes(filepath.Join(from, name), stamp, stamp))
	}
	require.NoError(t, os.Chmod(filepath.Join(from, "ro/sub"), 0o555))
	require.NoError(t, os.Chmod(filepath.Join(from, "ro"), 0o500))
	t.Cleanup(func() { // otherwise only root could remove them
		for _, dir := range []string{from, to} {
			_ = os.Chmod(filepath.Join(dir, "ro"), 0o700)
			_ = os.Chmod(filepath.Join(dir, "ro/sub"), 0o700)
		}
	})
	data := pack(t, archive.Selection{Root: from})
	require.Equal(t, data, pack(t, archive.Selection{Root: from}), "packing is deterministic")
	for range 2 { // also over existing files, including read-only directories
		unpack(t, to, data)
		require.Empty(t, cmp.Diff(tree(t, from), tree(t, to)))
		for _, name := range []string{"plain", "ro/sub/file", "ro/sub", "ro"} {
			info, err := os.Stat(filepath.Join(to, name))
			require.NoError(t, err)
			require.True(t, stamp.Equal(info.ModTime()), "%s: %s", name, info.ModTime())
		}
		many, err := os.Stat(filepath.Join(to, "many"))
		require.NoError(t, err)
		for _, name := range []string{"zzz", "empty/again"} {
			other, err := os.Stat(filepath.Join(to, name))
			require.NoError(t, err)
			require.True(t, os.SameFile(many, other), name)
		}
	}
}

func TestRoundTrip_apart(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	write(t, from, "a")
	require.NoError(t, os.Link(filepath.Join(from, "a"), filepath.Join(from, "b")))
	unpack(t, to, pack(t, archive.Selection{Root: from, SplitHardLinks: true}))
	a, err := os.Stat(filepath.Join(to, "a"))
	require.NoError(t, err)
	b, err := os.Stat(filepath.Join(to, "b"))
	require.NoError(t, err)
	require.False(t, os.SameFile(a, b))
}

func TestPack_skips_special_files(t *testing.T) {
	t.Parallel()
	from, err := os.MkdirTemp("", "drover") //nolint:usetesting // a socket's path must be short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(from) })
	l, err := net.Listen("unix", filepath.Join(from, "socket"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	stats, err := archive.Pack(t.Context(), io.Discard, archive.Selection{Root: from}, archive.Limits{})
	require.NoError(t, err)
	require.Equal(t, archive.Stats{Skipped: 1}, stats)
}

func TestUnpack_later_wins(t *testing.T) {
	t.Parallel()
	first, second, to := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, first, "kept", "dir/kept", "file", "was-file", "was-dir/x", "was-link -> kept", "linked/x", "dir/shared")
	write(t, second, "dir/new", "file", "was-file/y", "was-dir", "was-link", "linked -> dir")
	require.NoError(t, os.WriteFile(filepath.Join(second, "file"), []byte("second"), 0o600))
	require.NoError(t, os.Chmod(filepath.Join(second, "file"), 0o600))
	unpack(t, to, pack(t, archive.Selection{Root: first}))
	unpack(t, to, pack(t, archive.Selection{Root: second}))
	require.Equal(t, []string{
		"dir/", "dir/kept", "dir/new", "dir/shared", "file", "kept", "linked", "was-dir", "was-file/", "was-file/y", "was-link",
	}, names(t, to))
	got := tree(t, to)
	require.Equal(t, "-rw------- second", got["file"])
	require.Equal(t, "-rw-r--r-- kept", got["kept"], "nothing was written through a link")
	require.Equal(t, "-> dir", got["linked"])
}

func TestUnpack_sparse(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	const size = 64 << 20
	f, err := os.Create(filepath.Join(from, "sparse"))
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("middle"), 20<<20)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(size))
	require.NoError(t, f.Close())
	data := pack(t, archive.Selection{Root: from})
	require.Less(t, len(data), 64<<10)
	require.Equal(t, int64(size), unpack(t, to, data).Bytes)
	info, err := os.Stat(filepath.Join(to, "sparse"))
	require.NoError(t, err)
	require.Equal(t, int64(size), info.Size())
	require.Less(t, allocated(t, info), int64(size/2))
	got, err := os.ReadFile(filepath.Join(to, "sparse"))
	require.NoError(t, err)
	require.Equal(t, "middle", string(bytes.Trim(got, "\x00")))
}

// entry is an entry of a malicious archive.
type entry struct {
	name, link string
	kind       byte
	content    string
}

func forge(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out)
	require.NoError(t, err)
	w := tar.NewWriter(z)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Linkname: e.link, Typeflag: e.kind, Mode: 0o6755, Size: int64(len(e.content))}
		require.NoError(t, w.WriteHeader(h))
		_, err := io.WriteString(w, e.content)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return out.Bytes()
}

func TestUnpack_stays_inside(t *testing.T) {
	t.Parallel()
	for name, entries := range map[string][]entry{
		"parent":                  {{name: "../evil", kind: tar.TypeReg, content: "evil"}},
		"parent within":           {{name: "a/../../evil", kind: tar.TypeReg, content: "evil"}},
		"absolute":                {{name: "/evil", kind: tar.TypeReg, content: "evil"}},
		"parent directory":        {{name: "../evil", kind: tar.TypeDir}},
		"through a link up":       {{name: "a", link: "..", kind: tar.TypeSymlink}, {name: "a/evil", kind: tar.TypeReg, content: "evil"}},
		"through an absolute one": {{name: "a", link: "OUTSIDE", kind: tar.TypeSymlink}, {name: "a/evil", kind: tar.TypeReg, content: "evil"}},
		"through two":             {{name: "b", link: "a", kind: tar.TypeSymlink}, {name: "a", link: "OUTSIDE", kind: tar.TypeSymlink}, {name: "b/evil", kind: tar.TypeReg, content: "evil"}},
		"directory through a link": {
			{name: "a", link: "OUTSIDE", kind: tar.TypeSymlink}, {name: "a/evil", kind: tar.TypeDir},
		},
		"mode through a link":                 {{name: "a", link: "OUTSIDE/victim", kind: tar.TypeSymlink}, {name: "a", kind: tar.TypeDir}, {name: "../victim", kind: tar.TypeDir}},
		"hard link up":                        {{name: "evil", link: "../victim", kind: tar.TypeLink}},
		"hard link absolute":                  {{name: "evil", link: "OUTSIDE/victim", kind: tar.TypeLink}},
		"hard link through a link":            {{name: "a", link: "..", kind: tar.TypeSymlink}, {name: "evil", link: "a/victim", kind: tar.TypeLink}},
		"hard link to a link":                 {{name: "a", link: "OUTSIDE/victim", kind: tar.TypeSymlink}, {name: "evil", link: "a", kind: tar.TypeLink}},
		"hard link to a directory":            {{name: "d", kind: tar.TypeDir}, {name: "evil", link: "d", kind: tar.TypeLink}},
		"hard link to nothing":                {{name: "evil", link: "none", kind: tar.TypeLink}},
		"hard link to itself":                 {{name: "f", kind: tar.TypeReg}, {name: "f", link: "f", kind: tar.TypeLink}},
		"a device":                            {{name: "null", kind: tar.TypeChar}},
		"a block device":                      {{name: "disk", kind: tar.TypeBlock}},
		"a pipe":                              {{name: "pipe", kind: tar.TypeFifo}},
		"a file without a name":               {{name: ".", kind: tar.TypeReg, content: "evil"}},
		"a valid entry before an invalid one": {{name: "ok", kind: tar.TypeReg}, {name: "../evil", kind: tar.TypeReg, content: "evil"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outside := t.TempDir()
			dir := filepath.Join(outside, "inside")
			write(t, outside, "victim")
			for i := range entries {
				entries[i].link = strings.ReplaceAll(entries[i].link, "OUTSIDE", outside)
			}
			before := tree(t, outside)
			_, err := archive.Unpack(t.Context(), dir, bytes.NewReader(forge(t, entries...)), archive.Unpacking{})
			require.Equal(t, run.CodeInvalid, run.CodeOf(err), "%v", err)
			require.NoError(t, os.RemoveAll(dir))
			require.Empty(t, cmp.Diff(before, tree(t, outside)))
		})
	}
}

func TestUnpack_writes_over_links_and_not_through_them(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	dir := filepath.Join(outside, "inside")
	write(t, outside, "victim")
	data := forge(t,
		entry{name: "a", link: filepath.Join(outside, "victim"), kind: tar.TypeSymlink}, entry{name: "a", kind: tar.TypeReg, content: "new"},
		entry{name: "b", link: "../victim", kind: tar.TypeSymlink}, entry{name: "b", kind: tar.TypeReg, content: "new"},
		entry{name: "c", link: outside, kind: tar.TypeSymlink}, entry{name: "c", kind: tar.TypeDir}, entry{name: "c/victim", kind: tar.TypeReg, content: "new"})
	unpack(t, dir, data)
	require.Equal(t, map[string]string{
		"victim": "-rw-r--r-- victim", "inside": "drwxr-xr-x", "inside/a": "-rwxr-xr-x new", "inside/b": "-rwxr-xr-x new",
		"inside/c": "drwxr-xr-x", "inside/c/victim": "-rwxr-xr-x new",
	}, tree(t, outside), "and no file has the setuid bit")
}

func TestUnpack_errors(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	write(t, from, "a", "b", "c")
	data := pack(t, archive.Selection{Root: from})
	try := func(data []byte, l archive.Limits) run.Code {
		_, err := archive.Unpack(t.Context(), t.TempDir(), bytes.NewReader(data), archive.Unpacking{Limits: l})
		return run.CodeOf(err)
	}
	require.Equal(t, run.CodeTooLarge, try(data, archive.Limits{Entries: 2}))
	require.Equal(t, run.CodeTooLarge, try(data, archive.Limits{Bytes: 2}))
	for cut := range data {
		require.Equal(t, run.CodeInvalid, try(data[:cut], archive.Limits{}), "cut at %d", cut)
	}
	require.Equal(t, run.CodeInvalid, try([]byte("no archive at all"), archive.Limits{}))
	flipped := bytes.Clone(data)
	flipped[len(flipped)/2] ^= 1
	require.Equal(t, run.CodeInvalid, try(flipped, archive.Limits{}))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := archive.Unpack(ctx, t.TempDir(), bytes.NewReader(data), archive.Unpacking{})
	require.Equal(t, run.CodeCanceled, run.CodeOf(err))
}

func TestOpen(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	write(t, from, "a", "dir/b", "link -> a")
	data := pack(t, archive.Selection{Root: from})
	f, err := archive.Open(t.Context(), bytes.NewReader(data), "./dir/b", archive.Limits{})
	require.NoError(t, err)
	content, err := io.ReadAll(f)
	require.NoError(t, err)
	require.Equal(t, "dir/b", string(content))
	require.NoError(t, f.Close())
	for name, want := range map[string]run.Code{"none": run.CodeNotFound, "dir": run.CodeInvalid, "link": run.CodeInvalid} {
		_, err = archive.Open(t.Context(), bytes.NewReader(data), name, archive.Limits{})
		require.Equal(t, want, run.CodeOf(err), name)
	}
	var listed []string
	require.NoError(t, archive.List(t.Context(), bytes.NewReader(data), archive.Limits{}, func(e archive.Entry, _ io.Reader) bool {
		listed = append(listed, e.Name)
		return true
	}))
	require.Equal(t, []string{"a", "dir", "dir/b", "link"}, listed)
	require.Error(t, archive.List(t.Context(), bytes.NewReader(data[:len(data)-9]), archive.Limits{}, func(archive.Entry, io.Reader) bool { return true }))
}

func TestTree(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	write(t, from, "dir/a", "dir/sub/b", "other")
	r, err := archive.Tree(t.Context(), filepath.Join(from, "dir"))
	require.NoError(t, err)
	_, err = archive.UnpackTar(t.Context(), to, r, archive.Unpacking{})
	require.NoError(t, err)
	require.Equal(t, []string{"dir/", "dir/a", "dir/sub/", "dir/sub/b"}, names(t, to))
	_, err = archive.Tree(t.Context(), filepath.Join(from, "none"))
	require.Equal(t, run.CodeNotFound, run.CodeOf(err))
}
