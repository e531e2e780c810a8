package process

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLookPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(dir+"/bin/tool.d", 0o755))
	require.NoError(t, os.WriteFile(dir+"/bin/tool", nil, 0o755))
	require.NoError(t, os.WriteFile(dir+"/bin/text", nil, 0o644))
	for _, tt := range []struct{ name, path, want string }{
		{"tool", "/no/such:" + dir + "/bin", dir + "/bin/tool"},
		{"tool", "bin", dir + "/bin/tool"},
		{"./bin/tool", "", dir + "/bin/tool"},
		{"/bin/x", "", "/bin/x"},
		{"text", dir + "/bin", ""},
		{"tool.d", dir + "/bin", ""},
		{"tool", "", ""},
	} {
		got, err := LookPath(tt.name, tt.path, dir)
		require.Equal(t, tt.want, got, tt.name)
		require.Equal(t, tt.want == "", err != nil, tt.name)
	}
}

func TestState(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := ReadState(dir)
	require.NoError(t, err)
	require.Zero(t, s)
	lock, err := Lock(dir)
	require.NoError(t, err)
	for _, want := range []State{{PID: 1234567890, Boot: strings.Repeat("x", 36)}, {PID: 1, Clean: true}} {
		require.NoError(t, want.Write(lock))
		got, err := ReadState(dir)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	alive, err := Alive(dir)
	require.NoError(t, err)
	require.True(t, alive)
	_, err = Lock(dir)
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, lock.Close())
	alive, err = Alive(dir)
	require.NoError(t, err)
	require.False(t, alive)
	require.NoError(t, AwaitEnd(dir))
}
