package tokens_test

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/tokens"
	"github.com/drover-run/drover/run"
)

func keys(t *testing.T, lines ...string) *tokens.Keys {
	t.Helper()
	text := "# the newest first\n\n"
	for _, line := range lines {
		text += line + "\n"
	}
	k, err := tokens.ParseKeys(text)
	require.NoError(t, err)
	return k
}

func TestKeys_Wrap(t *testing.T) {
	t.Parallel()
	k := keys(t, tokens.NewKey())
	token := make([]byte, 300)
	_, _ = rand.Read(token)
	wrapped := k.Wrap("drover", "executor:a", token)
	got, err := k.Unwrap("drover", "executor:a", wrapped)
	require.NoError(t, err)
	require.Equal(t, token, got)

	for name, call := range map[string]func() ([]byte, error){
		"another's":         func() ([]byte, error) { return k.Unwrap("drover", "executor:b", wrapped) },
		"another namespace": func() ([]byte, error) { return k.Unwrap("other", "executor:a", wrapped) },
		"shifted names":     func() ([]byte, error) { return k.Unwrap("drovere", "xecutor:a", wrapped) },
		"Temporal's own":    func() ([]byte, error) { return k.Unwrap("drover", "executor:a", token) },
		"nothing":           func() ([]byte, error) { return k.Unwrap("drover", "executor:a", nil) },
		"no token in it":    func() ([]byte, error) { return k.Unwrap("drover", "executor:a", wrapped[:36]) },
		"another key":       func() ([]byte, error) { return keys(t, tokens.NewKey()).Unwrap("drover", "executor:a", wrapped) },
	} {
		got, err := call()
		require.ErrorIs(t, err, tokens.ErrNotWrapped, name)
		require.Nil(t, got, name)
	}
	for i := range wrapped {
		altered := bytes.Clone(wrapped)
		altered[i] ^= 1
		_, err := k.Unwrap("drover", "executor:a", altered)
		require.ErrorIs(t, err, tokens.ErrNotWrapped, i)
	}
}

func TestKeys_are_replaced(t *testing.T) {
	t.Parallel()
	first, second := tokens.NewKey(), tokens.NewKey()
	require.NotEqual(t, first, second)
	wrapped := keys(t, first).Wrap("n", "o", []byte("x"))
	claimProof := keys(t, first).ClaimProof("o", run.Key{Run: "r"})
	both := keys(t, second, first)
	_, err := both.Unwrap("n", "o", wrapped)
	require.NoError(t, err)
	require.True(t, both.CheckClaimProof("o", run.Key{Run: "r"}, claimProof))
	_, err = keys(t, first).Unwrap("n", "o", both.Wrap("n", "o", []byte("x")))
	require.ErrorIs(t, err, tokens.ErrNotWrapped, "the newest key signs")
}

func TestKeys_ClaimProof(t *testing.T) {
	t.Parallel()
	k := keys(t, tokens.NewKey())
	key := run.Key{Run: "01jd0000000000000000000000", Task: 3, Attempt: 1, Dispatch: 2}
	claimProof := k.ClaimProof("set:s", key)
	require.True(t, k.CheckClaimProof("set:s", key, claimProof))
	require.False(t, k.CheckClaimProof("set:t", key, claimProof))
	for _, bad := range []string{"", "x", claimProof + "A", claimProof[1:]} {
		require.False(t, k.CheckClaimProof("set:s", key, bad), bad)
	}
	key.Dispatch++
	require.False(t, k.CheckClaimProof("set:s", key, claimProof))
}

func TestParseKeys_refuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "no key", "# none\n": "no key", "hunter2": "line 1 is not a key", tokens.NewKey() + "\naHVudGVyMg==\n": "line 2 is not a key",
	} {
		_, err := tokens.ParseKeys(text)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestReadKeys(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys")
	_, err := tokens.ReadKeys(file)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(file, []byte("x\n"), 0o600))
	_, err = tokens.ReadKeys(file)
	require.ErrorContains(t, err, file)
	require.NoError(t, os.WriteFile(file, []byte(tokens.NewKey()+"\n"), 0o600))
	_, err = tokens.ReadKeys(file)
	require.NoError(t, err)
}
