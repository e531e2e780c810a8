package spec_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

func TestValidateRun_archives(t *testing.T) {
	t.Parallel()
	paths := func(list ...string) run.ArchivePaths { return run.ArchivePaths{Paths: list} }
	rooted := func(root string, list ...string) run.ArchivePaths { return run.ArchivePaths{Paths: list, Root: root} }
	workspace := func(p run.ArchivePaths, to string) run.ArchiveStep {
		return run.ArchiveStep{SaveWorkspace: &run.SaveWorkspace{ArchivePaths: p, To: to}}
	}
	cache := func(key, scope string) run.ArchiveStep {
		return run.ArchiveStep{SaveCache: &run.SaveCache{Key: key, Scope: scope}}
	}
	artifact := func(name string) run.ArchiveStep {
		return run.ArchiveStep{SaveArtifacts: &run.SaveArtifacts{Name: name}}
	}
	restore := func(keys ...string) run.ArchiveStep {
		return run.ArchiveStep{RestoreCache: &run.RestoreCache{Keys: keys}}
	}
	long := strings.Repeat("x", 5000)
	for name, tt := range map[string]struct {
		step run.ArchiveStep
		want string // "" for none
	}{
		"everything":               {workspace(paths(), ""), ""},
		"globs":                    {workspace(paths("bin/**", "!bin/{tmp,x}/*", "[a-c]?", "./a/"), "deep/er"), ""},
		"absolute":                 {workspace(paths("/root/.cache", "!/root/.cache/x"), ""), ""},
		"absolute below its root":  {workspace(rooted("/src/", "/src/bin", "/src", "lib"), "."), ""},
		"all of a root":            {workspace(rooted("/", "/etc"), ""), ""},
		"absolute beside its root": {workspace(rooted("/src", "a", "/srcs/bin"), ""), "save_workspace.paths[1] bad_value"},
		"absolute, root is not":    {workspace(rooted("src", "/srcs/bin"), ""), "save_workspace.paths[0] contradiction"},
		"some absolute":            {workspace(paths("a", "/b"), ""), "save_workspace.root required"},
		"out of the directory":     {workspace(paths("a/../../b"), ""), "save_workspace.paths[0] bad_value"},
		"no path":                  {workspace(paths("a", "!"), ""), "save_workspace.paths[1] required"},
		"no glob":                  {workspace(paths("[", "{a", "a}", "[]", `a\`, "[^"), ""), "save_workspace.paths[0] bad_format, save_workspace.paths[1] bad_format, save_workspace.paths[2] bad_format, save_workspace.paths[3] bad_format, save_workspace.paths[4] bad_format, save_workspace.paths[5] bad_format"},
		"long paths":               {workspace(rooted(long, long), ""), "save_workspace.root over_limit, save_workspace.paths[0] over_limit"},
		"many paths":               {workspace(paths(make([]string, 1001)...), ""), "save_workspace.paths over_limit"},
		"out of the workspace":     {workspace(paths(), "a/../.."), "save_workspace.to bad_value"},
		"absolute in it":           {workspace(paths(), "/a"), "save_workspace.to bad_value"},
		"text":                     {workspace(rooted("\x00"), "\xff"), "save_workspace.root bad_format, save_workspace.to bad_format"},
		"target":                   {run.ArchiveStep{RestoreWorkspace: &run.RestoreWorkspace{To: "/x\x00"}}, "restore_workspace.to bad_format"},
		"key":                      {cache(`go-{{ os }}-{{ sha256 "go.sum" "**/x" }}-{{ date "2006-01" }}-{{ env "A" | sha256 }}`, ""), ""},
		"scope":                    {cache("k", "/project/42/branch"), ""},
		"own scope":                {cache("k", "/project/42/branch/main"), ""},
		"another scope":            {cache("k", "/project/43"), "save_cache.scope bad_value"},
		"scope beside":             {cache("k", "/project/42/bran"), "save_cache.scope bad_value"},
		"scope above all":          {cache("k", "/project"), "save_cache.scope bad_value"},
		"unclean scope":            {cache("k", "/project/42/"), "save_cache.scope bad_value"},
		"no key":                   {cache(" ", ""), "save_cache.key required"},
		"long key":                 {cache(long, ""), "save_cache.key over_limit"},
		"unknown function":         {cache("{{ sha1 }}", ""), "save_cache.key bad_format"},
		"broken template":          {cache("{{ os", ""), "save_cache.key bad_format"},
		"field":                    {cache("{{ .Secrets }}", ""), "save_cache.key bad_format"},
		"variable":                 {cache("{{ $a := os }}", ""), "save_cache.key bad_format"},
		"loop":                     {cache("{{ range os }}x{{ end }}", ""), "save_cache.key bad_format"},
		"definition":               {cache(`{{ define "key" }}x{{ end }}{{ define "b" }}x{{ end }}`, ""), "save_cache.key bad_format"},
		"output":                   {cache(`{{ output "a" "b" }}`, ""), "save_cache.key not_supported"},
		"keys":                     {restore("a", "{{ arch }}"), ""},
		"no keys":                  {restore(), "restore_cache.keys required"},
		"many keys":                {restore(slices.Repeat([]string{"a"}, 21)...), "restore_cache.keys over_limit"},
		"empty key":                {restore("a", ""), "restore_cache.keys[1] required"},
		"artifact":                 {artifact("test-Report_1.x"), ""},
		"artifact without a name":  {artifact(""), "save_artifacts.name required"},
		"artifact with a path":     {artifact("a/b"), "save_artifacts.name bad_format"},
		"artifact of dots":         {artifact(".."), "save_artifacts.name bad_format"},
		"artifact twice":           {artifact("same"), "save_artifacts.name duplicate"},
		"retention":                {run.ArchiveStep{SaveArtifacts: &run.SaveArtifacts{Name: "a", Retention: -1}}, "save_artifacts.retention out_of_range"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &run.Spec{Name: "n", Group: "/project/42/branch/main", Tasks: map[string]*run.TaskSpec{
				"a": {Steps: []run.Step{{ArchiveStep: artifact("same")}, {ArchiveStep: tt.step}}},
			}}
			var got []string
			for _, f := range spec.ValidateRun(s) {
				if path, ok := strings.CutPrefix(f.Path, "tasks.a.steps[1]."); ok {
					got = append(got, path+" "+string(f.Code))
				}
			}
			require.Equal(t, tt.want, strings.Join(got, ", "))
		})
	}
}
