package run_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drover-run/drover/run"
)

func TestToken_round_trip(t *testing.T) {
	t.Parallel()
	name := rapid.StringOfN(rapid.RuneFrom([]rune("ab/é \"\\%{")), 1, 20, -1)
	rapid.Check(t, func(t *rapid.T) {
		token := run.Token(rapid.MapOfN(name, rapid.Int64Min(0), 1, run.MaxTokenGroups).Draw(t, "token"))
		back, err := run.ParseToken(token.String())
		require.NoError(t, err)
		require.Equal(t, token, back)
	})
}

func TestToken_none(t *testing.T) {
	t.Parallel()
	for _, none := range []run.Token{nil, {}} {
		require.Empty(t, none.String())
	}
	token, err := run.ParseToken("")
	require.NoError(t, err)
	require.Nil(t, token)
}

func TestParseToken_unreadable(t *testing.T) {
	t.Parallel()
	encoded := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	many := make([]string, run.MaxTokenGroups+1)
	for i := range many {
		many[i] = fmt.Sprintf(`"g%d":1`, i)
	}
	for name, text := range map[string]string{
		"no base64":           "a b",
		"no JSON":             encoded("{"),
		"of another kind":     encoded(`{"i":"x"}`),
		"without groups":      encoded(`{"v":{}}`),
		"a text as a version": encoded(`{"v":{"g":"1"}}`),
		"a negative version":  encoded(`{"v":{"g":-1}}`),
		"an invalid name":     encoded(`{"v":{"a\u0000b":1}}`),
		"an empty name":       encoded(`{"v":{"":1}}`),
		"a long name":         encoded(`{"v":{"` + strings.Repeat("a", run.MaxNameLength+1) + `":1}}`),
		"too many groups":     encoded(`{"v":{` + strings.Join(many, ",") + `}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := run.ParseToken(text)
			require.Equal(t, run.CodeUnreadable, run.CodeOf(err), "%v", err)
		})
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(run.Token{"a": 1}.String())
	f.Fuzz(func(t *testing.T, text string) {
		token, err := run.ParseToken(text)
		if err != nil {
			require.Equal(t, run.CodeUnreadable, run.CodeOf(err))
			return
		}
		back, err := run.ParseToken(token.String())
		require.NoError(t, err)
		require.Equal(t, token, back)
	})
}

func TestCheckChangeGroupName(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]bool{
		"deploy": false, "project/42": false, "ü ß": false, strings.Repeat("a", run.MaxNameLength): false,
		"": true, strings.Repeat("a", run.MaxNameLength+1): true, "a\nb": true, "a\x00": true, "a\xffb": true, "a\u0085": true,
	} {
		require.Equal(t, wrong, run.CheckChangeGroupName(name) != "", "%q", name)
	}
}

func TestPathChangeGroups(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"group:/p", "group:/p/42", "group:/p/42/deploy"}, run.PathChangeGroups("/p/42/deploy"))
	require.Empty(t, run.PathChangeGroups(""))
}
