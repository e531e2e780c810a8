package run_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

func TestMatchCacheKey(t *testing.T) {
	t.Parallel()
	sum := strings.Repeat("0f", 32)
	for _, tt := range []struct {
		template string
		good     []string
		bad      []string
	}{
		{"plain.v1", []string{"plain.v1"}, []string{"plainxv1", "plain.v1 ", "", "plain.v", "plain.v1\n"}},
		{`go-{{ arch }}-{{ sha256 "go.sum" "*/go.sum" }}`, []string{"go-amd64-" + sum}, []string{"go-amd64-", "go-amd64-" + sum + "0", "go--" + sum, "go-AMD-" + sum}},
		{`{{ os }}-{{ md5 "a" }}-{{ year }}{{ month }}{{ day }}.{{ week }}`, []string{"linux-" + sum[:32] + "-20260102.01"}, []string{"linux-" + sum + "-20260102.01", "linux-" + sum[:32] + "-2026010201"}},
		{`a {{- /* c */ -}} b{{ "(x)" }}`, []string{"ab(x)"}, []string{"abx", "a b(x)"}},
		{`v-{{ env "V" }}-{{ date "2006-01-02" }}-end`, []string{"v-anything at all-2026-01-02-end", "v---end"}, []string{"w-x-y-end", "v-x-y-en"}},
		{`{{ sha256 (env "F") }}`, []string{sum}, []string{"x"}},
		{`{{ "go.sum" | sha256 }}`, []string{sum}, []string{"go.sum"}},
		{`{{ broken`, nil, []string{"{{ broken"}},
	} {
		for _, key := range tt.good {
			require.NoError(t, run.MatchCacheKey(tt.template, key), tt.template)
		}
		for _, key := range tt.bad {
			require.Equal(t, run.CodeInvalid, run.CodeOf(run.MatchCacheKey(tt.template, key)), "%s %q", tt.template, key)
		}
	}
}

func TestCheckCacheKey(t *testing.T) {
	t.Parallel()
	require.NoError(t, run.CheckCacheKey("go-ä/1"))
	for _, key := range []string{"", " ", "a\nb", "\xff", strings.Repeat("x", 513)} {
		require.Equal(t, run.CodeInvalid, run.CodeOf(run.CheckCacheKey(key)), key)
	}
}
