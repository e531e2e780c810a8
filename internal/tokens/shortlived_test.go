package tokens

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestKeys_IssueShortLived(t *testing.T) {
	t.Parallel()
	keys, err := ParseKeys(NewKey())
	require.NoError(t, err)
	listed, err := NewList([]Token{{Name: "admin", Hash: Hash("drover_listed"), Scopes: []Scope{Admin}}})
	require.NoError(t, err)
	now := time.Unix(1_800_000_000, 0)
	auth := WithShortLived(keys, listed)
	auth.now = func() time.Time { return now }

	binding := Binding{Executor: "host-7", Pool: "linux", Set: "s", Fleet: "fleet-1", Instance: "vm-1"}
	token, err := keys.IssueShortLived(binding, now, time.Hour)
	require.NoError(t, err)
	p, ok := auth.Authenticate(token)
	require.True(t, ok)
	require.Equal(t, Principal{
		Name: "host-7", Scopes: []Scope{Executor}, Binding: binding, IssuedAt: now, Expires: now.Add(time.Hour),
	}, p)
	require.True(t, p.Allows(Executor))
	require.False(t, p.Allows(Read))
	p, ok = auth.Authenticate("drover_listed")
	require.True(t, ok)
	require.Equal(t, "admin", p.Name)

	// No client can turn it into the token of another executor, or extend it.
	body, mac, _ := strings.Cut(strings.TrimPrefix(token, shortLivedPrefix), ".")
	text, err := base64.RawURLEncoding.DecodeString(body)
	require.NoError(t, err)
	forged := strings.Replace(string(text), "host-7", "host-8", 1)
	for _, bad := range []string{
		shortLivedPrefix + base64.RawURLEncoding.EncodeToString([]byte(forged)) + "." + mac,
		shortLivedPrefix + body + ".", shortLivedPrefix + body, shortLivedPrefix + "." + mac, shortLivedPrefix, "", token + "x", shortLivedPrefix + "!." + mac,
	} {
		_, ok := auth.Authenticate(bad)
		require.False(t, ok, bad)
	}
	foreign, err := ParseKeys(NewKey())
	require.NoError(t, err)
	_, ok = WithShortLived(foreign, listed).Authenticate(token)
	require.False(t, ok)
	rotated := &Keys{keys: append(foreign.keys, keys.keys...)}
	old := WithShortLived(rotated, listed)
	old.now = auth.now
	_, ok = old.Authenticate(token)
	require.True(t, ok, "a token that an older key signed")

	now = now.Add(time.Hour - time.Second)
	_, ok = auth.Authenticate(token)
	require.True(t, ok)
	now = now.Add(time.Second)
	_, ok = auth.Authenticate(token)
	require.False(t, ok, "it has expired")
}

func TestKeys_IssueShortLived_is_bound(t *testing.T) {
	t.Parallel()
	keys, err := ParseKeys(NewKey())
	require.NoError(t, err)
	for _, b := range []Binding{
		{},
		{Executor: "x"},
		{Pool: "p"},
		{Executor: "x*", Pool: "p"},
		{Executor: "x y", Pool: "p"},
		{Executor: "x", Pool: "a/b"},
		{Executor: "x", Pool: "p", Fleet: "f"},
		{Executor: "x", Pool: "p", Instance: "i"},
	} {
		_, err := keys.IssueShortLived(b, time.Now(), time.Hour)
		require.Error(t, err, "%+v", b)
	}
	_, err = keys.IssueShortLived(Binding{Executor: "x", Pool: "p"}, time.Now(), 0)
	require.Error(t, err)
}
