package keyring_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/keyring"
)

func newRing(t *testing.T, ids ...string) (*keyring.Ring, []string) {
	t.Helper()
	var lines []string
	for _, id := range ids {
		line, err := keyring.NewKey(id)
		require.NoError(t, err)
		lines = append(lines, line)
	}
	r, err := keyring.Parse("# keys\n\n" + strings.Join(lines, "\n"))
	require.NoError(t, err)
	return r, lines
}

func TestRing(t *testing.T) {
	t.Parallel()
	r, _ := newRing(t, "k1")
	for _, value := range []string{"", "hunter2", strings.Repeat("x", 1<<16), "drover-sealed:1:k1:"} {
		sealed := r.Seal("runs/1", value)
		require.True(t, strings.HasPrefix(sealed, r.Current()))
		if len(value) > 3 {
			require.NotContains(t, sealed[len(r.Current()):], value)
		}
		require.NotEqual(t, sealed, r.Seal("runs/1", value), "a nonce is used once")
		opened, err := r.Open("runs/1", sealed)
		require.NoError(t, err)
		require.Equal(t, value, opened)
		_, err = r.Open("runs/2", sealed)
		require.Error(t, err, "it belongs to another run")
		last := byte('A')
		if sealed[len(sealed)-1] == last {
			last = 'Q'
		}
		_, err = r.Open("runs/1", sealed[:len(sealed)-1]+string(last))
		require.Error(t, err)
		_, err = r.Open("runs/1", r.Current())
		require.Error(t, err)
	}
}

func TestRing_replaced_key(t *testing.T) {
	t.Parallel()
	old, oldLines := newRing(t, "k1")
	fresh, freshLines := newRing(t, "k2")
	sealed := old.Seal("l", "hunter2")
	_, err := fresh.Open("l", sealed)
	require.ErrorIs(t, err, keyring.ErrUnknownKey)
	require.ErrorContains(t, err, `"k1"`)

	both, err := keyring.Parse(freshLines[0] + "\n" + oldLines[0])
	require.NoError(t, err)
	value, err := both.Open("l", sealed)
	require.NoError(t, err)
	require.Equal(t, "hunter2", value)
	require.Equal(t, fresh.Current(), both.Current())
	value, err = fresh.Open("l", both.Seal("l", value))
	require.NoError(t, err)
	require.Equal(t, "hunter2", value)
}

func TestRing_without_keys(t *testing.T) {
	t.Parallel()
	sealing, _ := newRing(t, "k1")
	for name, r := range map[string]*keyring.Ring{"nil": nil, "zero": {}} {
		require.Equal(t, "hunter2", r.Seal("l", "hunter2"), name)
		require.Empty(t, r.Current())
		value, err := r.Open("l", "hunter2")
		require.NoError(t, err)
		require.Equal(t, "hunter2", value)
		_, err = r.Open("l", sealing.Seal("l", "hunter2"))
		require.ErrorIs(t, err, keyring.ErrUnknownKey)
	}
	value, err := sealing.Open("l", "stored before there were keys")
	require.NoError(t, err)
	require.Equal(t, "stored before there were keys", value)
}

func TestParse_faults(t *testing.T) {
	t.Parallel()
	_, lines := newRing(t, "k1")
	key := strings.TrimPrefix(lines[0], "k1:")
	for text, want := range map[string]string{
		"":                            "there is no key",
		"# nothing\n":                 "there is no key",
		key:                           "line 1 does not begin with the id of a key and a colon",
		"a b:" + key:                  "line 1 does not begin with the id of a key and a colon",
		"\nk1:c2hvcnQ=":               "line 2: the key k1 is not 32 bytes in base64",
		lines[0] + "\n" + lines[0]:    "line 2: there is a key k1 already",
		strings.Repeat("k", 33) + key: "line 1 does not begin with the id of a key and a colon",
	} {
		_, err := keyring.Parse(text)
		require.EqualError(t, err, want)
	}
	_, err := keyring.NewKey("a:b")
	require.Error(t, err)
}

func FuzzOpen(f *testing.F) {
	line, err := keyring.NewKey("k")
	require.NoError(f, err)
	r, err := keyring.Parse(line)
	require.NoError(f, err)
	f.Add(r.Seal("l", "value"), "l")
	f.Add("drover-sealed:1:k:AAAA", "")
	f.Fuzz(func(t *testing.T, stored, label string) {
		value, err := r.Open(label, stored)
		if err == nil && strings.HasPrefix(stored, "drover-sealed:1:") && value != "value" {
			t.Fatalf("%q was opened as %q", stored, value)
		}
	})
}
