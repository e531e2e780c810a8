package executor

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestLastLines(t *testing.T) {
	t.Parallel()
	a, b, long := strings.Repeat("a", 40<<10), strings.Repeat("b", 40<<10), strings.Repeat("x", 20<<10)
	full := strings.Repeat("x", LastBytes-1)
	cases := map[string]struct {
		log  string
		want []string
	}{
		"no output":                   {log: "\n"},
		"all":                         {log: "one\n" + long + "\nthree\n", want: []string{"one", long, "three"}},
		"the first may be cut":        {log: "cret\n" + long + "\nthree\nfour\n", want: []string{long, "three", "four"}},
		"the last is incomplete":      {log: "one\ntwo", want: []string{"one", "two"}},
		"too many":                    {log: "1\n2\n3\n4\n5\n", want: []string{"2", "3", "4", "5"}},
		"too many with blank ones":    {log: "1\n\n3\n4\n\n", want: []string{"3", "4"}},
		"a line would be cut":         {log: a + "\n" + b + "\nend\n", want: []string{b, "end"}},
		"a line begins at the cut":    {log: "one\n" + full + "\n", want: []string{full}},
		"one line is too long":        {log: a + b + "\n"},
		"the last is too long":        {log: "one\n" + a + b},
		"a very long one, and others": {log: strings.Repeat(a, 10) + "\none\ntwo\n", want: []string{"one", "two"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole, parts := LastLines{Limit: 4}, LastLines{Limit: 4}
			_, err := io.WriteString(&whole, c.log)
			require.NoError(t, err)
			_, err = io.Copy(&parts, iotest.HalfReader(strings.NewReader(c.log)))
			require.NoError(t, err)
			require.Equal(t, c.want, whole.Lines())
			require.Equal(t, c.want, parts.Lines())
			require.LessOrEqual(t, cap(parts.kept), 4*LastBytes)
		})
	}
}
