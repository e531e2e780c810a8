package run

import (
	"path"
	"slices"
	"strings"
)

// ArchiveStep has the settings of an archive step. At most one of its fields is
// set.
type ArchiveStep struct {
	SaveWorkspace    *SaveWorkspace    `json:"save_workspace,omitempty"`
	RestoreWorkspace *RestoreWorkspace `json:"restore_workspace,omitempty"`
	SaveCache        *SaveCache        `json:"save_cache,omitempty"`
	RestoreCache     *RestoreCache     `json:"restore_cache,omitempty"`
	SaveArtifacts    *SaveArtifacts    `json:"save_artifacts,omitempty"`
}

// The types of step, as Step.Type returns them: keys of the specification.
const (
	StepRun              = "run"
	StepSaveWorkspace    = "save_workspace"
	StepRestoreWorkspace = "restore_workspace"
	StepSaveCache        = "save_cache"
	StepRestoreCache     = "restore_cache"
	StepSaveArtifacts    = "save_artifacts"
)

// ArchiveStepTypes returns the types of archive steps.
func ArchiveStepTypes() []string {
	return []string{StepSaveWorkspace, StepRestoreWorkspace, StepSaveCache, StepRestoreCache, StepSaveArtifacts}
}

// ArchivePaths selects the files that go into an archive.
type ArchivePaths struct {
	// Paths are globs with ** and {a,b} below the root, also absolute ones. A
	// glob that begins with ! excludes what it matches; of the globs that match
	// a file, the last decides. No globs at all select everything.
	Paths []string `json:"paths,omitempty"`
	// Root is the directory to which names in the archive are relative; see In.
	Root string `json:"root,omitempty"`
}

// In returns the directory to which names in the archive are relative, for a
// step with the working directory dir. It is the root, which may be relative to
// dir. Without a root it is / if all paths are absolute, and else dir.
func (p ArchivePaths) In(dir string) string {
	switch {
	case path.IsAbs(p.Root):
		return path.Clean(p.Root)
	case p.Root == "" && p.absolute():
		return "/"
	}
	return path.Join(dir, p.Root)
}

// absolute reports whether there are selecting paths and all of them are
// absolute.
func (p ArchivePaths) absolute() bool {
	selects := func(glob string) bool { return !strings.HasPrefix(glob, "!") }
	return slices.ContainsFunc(p.Paths, selects) &&
		!slices.ContainsFunc(p.Paths, func(glob string) bool { return !path.IsAbs(strings.TrimPrefix(glob, "!")) })
}

// SaveWorkspace saves files for the tasks that depend on this one.
type SaveWorkspace struct {
	ArchivePaths
	// To is the directory of the workspace that holds the files; "" means its
	// root.
	To string `json:"to,omitempty"`
}

// RestoreWorkspace unpacks the workspaces of the tasks on which this one
// depends, directly or through others: by level, then name, so that later ones
// win.
type RestoreWorkspace struct {
	// To is a directory, relative to the step's working directory; "" is that
	// directory.
	To string `json:"to,omitempty"`
}

// SaveCache saves files for later runs, unless a cache of that key exists.
type SaveCache struct {
	ArchivePaths
	Key string `json:"key"` // a template, see CacheKeyFunctions
	// Scope is the group whose runs share the cache: the run's own or one above
	// it, of at least two elements; "" means the first two.
	Scope string `json:"scope,omitempty"`
}

// RestoreCache unpacks the first cache that is found: for each key the cache of
// exactly that name, or else the newest whose name begins with it. If none is
// found, the step succeeds.
type RestoreCache struct {
	Keys  []string `json:"keys"`            // templates, see CacheKeyFunctions
	To    string   `json:"to,omitempty"`    // as in RestoreWorkspace
	Scope string   `json:"scope,omitempty"` // as in SaveCache
}

// SaveArtifacts saves files of a run for users.
type SaveArtifacts struct {
	ArchivePaths
	Name      string   `json:"name"`                // unique within the task
	Retention Duration `json:"retention,omitempty"` // 0: as long as the service keeps artifacts
	// JUnit says that the .xml files are test reports in JUnit's format.
	JUnit bool `json:"junit,omitempty"`
}

// ArchiveKind is the purpose of an archive.
type ArchiveKind string

// The kinds of archive.
const (
	ArchiveWorkspace ArchiveKind = "workspace"
	ArchiveCache     ArchiveKind = "cache"
	ArchiveArtifact  ArchiveKind = "artifact"
)

// ArchiveStat is the amount of stored data of a kind.
type ArchiveStat struct {
	Archives int64
	Bytes    int64
}

// Saves returns the kind of archive that the step saves, "" for none.
func (s *ArchiveStep) Saves() ArchiveKind {
	switch {
	case s.SaveWorkspace != nil:
		return ArchiveWorkspace
	case s.SaveCache != nil:
		return ArchiveCache
	case s.SaveArtifacts != nil:
		return ArchiveArtifact
	}
	return ""
}

// Restores returns the kind of archive that the step unpacks, "" for none.
func (s *ArchiveStep) Restores() ArchiveKind {
	switch {
	case s.RestoreWorkspace != nil:
		return ArchiveWorkspace
	case s.RestoreCache != nil:
		return ArchiveCache
	}
	return ""
}

// types returns the keys of the fields that are set.
func (s *ArchiveStep) types() []string {
	var out []string
	for _, t := range ArchiveStepTypes() {
		set := map[string]bool{
			StepSaveWorkspace: s.SaveWorkspace != nil, StepRestoreWorkspace: s.RestoreWorkspace != nil,
			StepSaveCache: s.SaveCache != nil, StepRestoreCache: s.RestoreCache != nil, StepSaveArtifacts: s.SaveArtifacts != nil,
		}[t]
		if set {
			out = append(out, t)
		}
	}
	return out
}

// GroupRoot returns the first two elements of a group. Run counters and, by
// default, caches are per group root.
func GroupRoot(group string) string {
	slashes := 0
	for i := range len(group) {
		if group[i] != '/' {
			continue
		}
		if slashes++; slashes == 3 {
			return group[:i]
		}
	}
	return group
}
