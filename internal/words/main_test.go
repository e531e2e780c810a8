package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLists_Find(t *testing.T) {
	t.Parallel()
	lists := Lists{Words: map[string]string{"yonder": "there"}, Identifiers: map[string]string{"Hither": "Here"}}
	tests := map[string]struct {
		file, text string
		want       []Finding
	}{
		"text":           {"a.md", "over\nyonder.\n", []Finding{{"a.md", 2, "yonder", "there"}}},
		"capitals":       {"a.md", "Yonder YONDER", []Finding{{"a.md", 1, "Yonder", "there"}, {"a.md", 1, "YONDER", "there"}}},
		"a plural":       {"a.md", "yonders", []Finding{{"a.md", 1, "yonders", "there"}}},
		"camel case":     {"a.go", "var newYonderList int", []Finding{{"a.go", 1, "Yonder", "there"}}},
		"snake case":     {"a.sql", "yonder_at", []Finding{{"a.sql", 1, "yonder", "there"}}},
		"a file's name":  {"b/yonder.txt", "", []Finding{{"b/yonder.txt", 1, "yonder", "there"}}},
		"inside a word":  {"a.md", "beyonder yondering", nil},
		"an identifier":  {"a.go", "package a\n\ntype Hither int // Hither", []Finding{{"a.go", 3, "Hither", "Here"}}},
		"not that case":  {"a.go", "package a\n\nvar hither, NewHither int", nil},
		"no identifiers": {"a.md", "Hither", nil},
		"binary":         {"yonder.gz", "\x00yonder", []Finding{{"yonder.gz", 1, "yonder", "there"}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, lists.Find(tt.file, []byte(tt.text)))
		})
	}
}

// TestLists_parse reads the lists of the project.
func TestLists_parse(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, parse(wordList))
	for word, instead := range parse(wordList) {
		require.NotEmpty(t, instead, word)
		require.Regexp(t, `^[a-z]+$`, word)
	}
	for name, instead := range parse(identifierList) {
		require.NotEmpty(t, instead, name)
	}
}
