package tokens_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/internal/tokens"
)

func TestNewList_refuses(t *testing.T) {
	t.Parallel()
	good := tokens.Token{Name: "a", Hash: tokens.Hash("x"), Scopes: []tokens.Scope{tokens.Read}}
	for want, change := range map[string]func(*tokens.Token){
		"no name":   func(t *tokens.Token) { t.Name = "" },
		"hash":      func(t *tokens.Token) { t.Hash = "hunter2" },
		"no scopes": func(t *tokens.Token) { t.Scopes = nil },
		"root":      func(t *tokens.Token) { t.Scopes = []tokens.Scope{"root"} },
		"twice":     func(*tokens.Token) {},
	} {
		bad := good
		if want != "twice" {
			bad.Name = "b"
		}
		change(&bad)
		_, err := tokens.NewList([]tokens.Token{good, bad})
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestNew_is_random(t *testing.T) {
	t.Parallel()
	a, b := tokens.New(), tokens.New()
	require.NotEqual(t, a, b)
	require.Greater(t, len(a), 40)
}

func TestFile_reloads(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	entry := func(token string) string {
		return "- name: me\n  hash: " + tokens.Hash(token) + "\n  scopes: [read]\n"
	}
	write(entry("one"))
	file, err := tokens.OpenFile(path, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	p, ok := file.Authenticate("one")
	require.True(t, ok)
	require.Equal(t, "me", p.Name)
	require.Equal(t, []tokens.Scope{tokens.Read}, p.Scopes)

	write("- name: [")
	authenticates := func(token string) func() (bool, string) {
		return func() (bool, string) {
			_, ok := file.Authenticate(token)
			return ok, "not known yet: " + token
		}
	}
	testenv.Await(t, authenticates("one")) // a bad file changes nothing
	write(entry("two") + "# longer\n")
	testenv.Await(t, authenticates("two"))
	_, ok = file.Authenticate("one")
	require.False(t, ok)
}

func TestOpenFile_refuses(t *testing.T) {
	t.Parallel()
	_, err := tokens.OpenFile(filepath.Join(t.TempDir(), "none"), slog.New(slog.DiscardHandler))
	require.ErrorIs(t, err, os.ErrNotExist)
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	require.NoError(t, os.WriteFile(path, []byte("- {name: a, token: hunter2}\n"), 0o600))
	_, err = tokens.OpenFile(path, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "token")
	require.NotContains(t, err.Error(), "hunter2")
}
