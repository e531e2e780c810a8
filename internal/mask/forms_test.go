package mask_test

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drover-run/drover/internal/mask"
)

func TestSet_hides_other_forms(t *testing.T) {
	t.Parallel()
	const secret = "s3cr/et +&<\"\n\\ü%?"
	long := strings.Repeat("0123456789", 14)
	quoted, err := json.Marshal(secret)
	require.NoError(t, err)
	wrapped := base64.StdEncoding.EncodeToString([]byte(long))
	for name, c := range map[string]struct{ text, want string }{
		"base64":                    {base64.StdEncoding.EncodeToString([]byte(secret)), "***"},
		"base64 for URLs":           {base64.RawURLEncoding.EncodeToString([]byte(secret)), "***"},
		"base64 in lines":           {wrapped[:76] + "\n" + wrapped[76:152] + "\n" + wrapped[152:] + "\n", "***\n***\n***\n"},
		"query":                     {"?a=" + url.QueryEscape(secret) + "&b", "?a=***&b"},
		"query, lower case":         {strings.ToLower(url.QueryEscape(secret)), "***"},
		"component":                 {strings.ReplaceAll(url.QueryEscape(secret), "+", "%20"), "***"},
		"path":                      {"/" + url.PathEscape(secret) + "/", "/***/"},
		"JSON":                      {string(quoted), `"***"`},
		"JSON without escaped HTML": {`"` + strings.ReplaceAll(string(quoted[1:len(quoted)-1]), `\u003c`, "<") + `"`, `"` + "***" + `"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.ReplaceAll(c.text, `\u0026`, "&")
			if name == "JSON" {
				text = c.text
			}
			require.Equal(t, c.want, mask.NewSet([]string{secret, long}).String(text))
		})
	}
	require.Equal(t, "YWI=", mask.NewSet([]string{"abcdef"}).String("YWI="), "short parts are not masked")
}

// A text is masked at every position of a longer encoded text.
func TestSet_hides_within_base64(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.SliceOfN(rapid.Byte(), 9, 40).Draw(t, "secret")
		before := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "before")
		after := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "after")
		alphabet := rapid.SampledFrom([]*base64.Encoding{base64.StdEncoding, base64.URLEncoding}).Draw(t, "alphabet")
		encoded := alphabet.EncodeToString(append(append(append([]byte{}, before...), secret...), after...))
		whole := encoded[(len(before)*8+5)/6 : (len(before)+len(secret))*8/6]
		if got := mask.NewSet([]string{string(secret)}).String(encoded); strings.Contains(got, whole) {
			t.Fatalf("%q is left in %q", whole, got)
		}
	})
}
