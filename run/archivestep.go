package run

import (
	"path"
	"slices"
	"strings"
)

// ArchiveStep is what an archive step does. At most one of its fields is set.
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

// ArchivePaths says what of an environment's files goes into an archive.
type ArchivePaths struct {
	// Paths are globs with ** and {a,b} below the root, absolute ones too. One
	// that begins with ! leaves out what it matches; of those that match, the
	// last one decides. None at all means everything.
	Paths []string `json:"paths,omitempty"`
	// Root is the directory to which names in the archive are relative; see In.
	Root string `json:"root,omitempty"`
}

// In returns the directory to which names in the archive are relative, for a
// step whose working directory is dir: the root, which may be relative to dir;
// without one, / where all paths are absolute, and else dir.
func (p ArchivePaths) In(dir string) string {
	switch {
	case path.IsAbs(p.Root):
		return path.Clean(p.Root)
	case p.Root == "" && p.absolute():
		return "/"
	}
	return path.Join(dir, p.Root)
}

// absolute reports whether there are paths and all that select are absolute.
func (p ArchivePaths) absolute() bool {
	selects := func(glob string) bool { return !strings.HasPrefix(glob, "!") }
	return slices.ContainsFunc(p.Paths, selects) &&
		!slices.ContainsFunc(p.Paths, func(glob string) bool { return !path.IsAbs(strings.TrimPrefix(glob, "!")) })
}

// SaveWorkspace hands files on to the tasks that depend on this one.
type SaveWorkspace struct {
	ArchivePaths
	// To is a directory of the workspace in which all lies; "" means its root.
	To string `json:"to,omitempty"`
}

// RestoreWorkspace unpacks what the tasks that this one depends on, over any
// number of others, have saved: by level, then name, so that later ones win.
type RestoreWorkspace struct {
	// To is a directory; relative to the step's working directory, which "" is.
	To string `json:"to,omitempty"`
}

// SaveCache keeps files for later runs, unless there is such a cache already.
type SaveCache struct {
	ArchivePaths
	Key string `json:"key"` // a template, see CacheKeyFunctions
	// Scope is the group whose runs share the cache: the run's own or one above
	// it, of at least two elements; "" means the first two.
	Scope string `json:"scope,omitempty"`
}

// RestoreCache unpacks the first cache that is found: for each key the one of
// exactly that name, or else the newest whose name begins with it. None at all
// is no failure.
type RestoreCache struct {
	Keys  []string `json:"keys"`            // templates, see CacheKeyFunctions
	To    string   `json:"to,omitempty"`    // as in RestoreWorkspace
	Scope string   `json:"scope,omitempty"` // as in SaveCache
}

// SaveArtifacts keeps files of a run for people.
type SaveArtifacts struct {
	ArchivePaths
	Name      string   `json:"name"`                // of one task once
	Retention Duration `json:"retention,omitempty"` // 0: as long as the service keeps artifacts
	// JUnit says that the .xml files are reports of tests in JUnit's format.
	JUnit bool `json:"junit,omitempty"`
}

// ArchiveKind says what an archive is for.
type ArchiveKind string

// The kinds of archive.
const (
	ArchiveWorkspace ArchiveKind = "workspace"
	ArchiveCache     ArchiveKind = "cache"
	ArchiveArtifact  ArchiveKind = "artifact"
)

// ArchiveStat is how much is stored of a kind.
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

// types returns the keys of what is set.
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

// GroupRoot returns the first two elements of a group, to which its counter and,
// by default, its caches belong.
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
