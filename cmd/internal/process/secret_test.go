package process

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/keyring"
)

// TestReadKeys_replaced puts a key first that another process uses at once.
func TestReadKeys_replaced(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys")
	logger := slog.New(slog.DiscardHandler)
	first, err := keyring.NewKey("k1")
	require.NoError(t, err)
	second, err := keyring.NewKey("k2")
	require.NoError(t, err)
	writeFile(t, file, []byte(first+"\n"))
	ring, err := ReadKeys("records.keys", "", file, logger)
	require.NoError(t, err)
	sealed := ring.Seal("l", "hunter2")

	writeFile(t, file, []byte(second+"\n"+first+"\n"))
	other, err := ReadKeys("records.keys", "", file, logger)
	require.NoError(t, err)
	value, err := ring.Open("l", other.Seal("l", "hunter3"))
	require.NoError(t, err, "a key that is not known is looked up in the file")
	require.Equal(t, "hunter3", value)
	require.Equal(t, other.Current(), ring.Current(), "the new key seals")
	value, err = ring.Open("l", sealed)
	require.NoError(t, err)
	require.Equal(t, "hunter2", value)

	writeFile(t, file, nil)
	value, err = ring.Open("l", sealed)
	require.NoError(t, err, "an empty file does not remove the keys")
	require.Equal(t, "hunter2", value)
	_, err = ring.Open("l", "drover-sealed:1:k3:AAAA")
	require.ErrorIs(t, err, keyring.ErrUnknownKey)

	for keys, path := range map[config.Secret]string{"": file, "bad": ""} {
		_, err := ReadKeys("records.keys", keys, path, logger)
		require.ErrorContains(t, err, "read records.keys: ")
		require.NotContains(t, err.Error(), "bad")
	}
}
