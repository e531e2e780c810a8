package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

func TestArchivePaths_In(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		root  string
		paths []string
		want  string
	}{
		{"", nil, "/work"},
		{"", []string{"a", "!b"}, "/work"},
		{"", []string{"!/b"}, "/work"},
		{"", []string{"/a", "!/b"}, "/"},
		{"src", []string{"a"}, "/work/src"},
		{"../x", nil, "/x"},
		{"/src/", []string{"/src/a"}, "/src"},
	} {
		require.Equal(t, tt.want, run.ArchivePaths{Root: tt.root, Paths: tt.paths}.In("/work"), "%+v", tt)
	}
}

func TestGroupRoot(t *testing.T) {
	t.Parallel()
	for group, want := range map[string]string{"/a/b/c/d": "/a/b", "/a/b": "/a/b", "/a": "/a"} {
		require.Equal(t, want, run.GroupRoot(group))
	}
}
