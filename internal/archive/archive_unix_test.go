//go:build unix

package archive_test

import (
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/archive"
	"github.com/drover-run/drover/internal/testenv"
)

// allocated returns the space of a file on disk.
func allocated(t *testing.T, info fs.FileInfo) int64 {
	t.Helper()
	s, ok := info.Sys().(*syscall.Stat_t)
	require.True(t, ok)
	return s.Blocks * 512
}

func TestUnpack_sets_the_owner(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		testenv.HostLacks(t, "root, to give files to another user")
	}
	from, to := t.TempDir(), t.TempDir()
	write(t, from, "dir/file", "link -> dir")
	r := pack(t, archive.Selection{Root: from, To: "implied"})
	_, err := archive.Unpack(t.Context(), to, reader(r), archive.Unpacking{Owner: &archive.Owner{UID: 1234, GID: 4321}})
	require.NoError(t, err)
	for _, name := range []string{"implied", "implied/dir", "implied/dir/file", "implied/link"} {
		info, err := os.Lstat(to + "/" + name)
		require.NoError(t, err)
		s, ok := info.Sys().(*syscall.Stat_t)
		require.True(t, ok)
		require.Equal(t, [2]uint32{1234, 4321}, [2]uint32{s.Uid, s.Gid}, name)
	}
}
