package spec

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/inputs"
)

// checkArchives checks the archive steps of a task.
func checkArchives(l *faultList, p run.Path, group string, steps []run.Step) {
	names := make(map[string]bool)
	for i := range steps {
		at, s := p.Index(i), &steps[i]
		if w := s.SaveWorkspace; w != nil {
			at := at.Key(run.StepSaveWorkspace)
			checkArchivePaths(l, at, w.ArchivePaths)
			checkText(l, at.Key("to"), w.To)
			if !localPath(w.To) {
				l.add(at.Key("to"), run.FaultBadValue, "%s leads out of the workspace", quote(w.To))
			}
		}
		if w := s.RestoreWorkspace; w != nil {
			checkTarget(l, at.Key(run.StepRestoreWorkspace).Key("to"), w.To)
		}
		if c := s.SaveCache; c != nil {
			at := at.Key(run.StepSaveCache)
			checkCacheKey(l, at.Key("key"), c.Key)
			checkArchivePaths(l, at, c.ArchivePaths)
			checkScope(l, at.Key("scope"), c.Scope, group)
			checkEnum(l, at.Key("mode"), c.Mode, run.CacheOnce, run.CacheReplace)
		}
		if c := s.RestoreCache; c != nil {
			at := at.Key(run.StepRestoreCache)
			checkCacheKeys(l, at.Key("keys"), c.Keys)
			checkTarget(l, at.Key("to"), c.To)
			checkScope(l, at.Key("scope"), c.Scope, group)
		}
		if a := s.SaveArtifacts; a != nil {
			at := at.Key(run.StepSaveArtifacts)
			checkArtifactName(l, at.Key("name"), a.Name, names)
			checkArchivePaths(l, at, a.ArchivePaths)
			checkTimeout(l, at.Key("retention"), a.Retention)
		}
	}
}

func checkArtifactName(l *faultList, p run.Path, name string, seen map[string]bool) {
	switch {
	case name == "":
		l.add(p, run.FaultRequired, "artifacts have a name")
	case !artifactPattern.MatchString(name) || len(name) > run.MaxNameLength:
		l.add(p, run.FaultBadFormat, "%s is not the name of artifacts: 1 to %d letters, digits, dots, underscores and dashes, not dots alone",
			quote(name), run.MaxNameLength)
	case seen[name]:
		l.add(p, run.FaultDuplicate, "the task has other artifacts named %s", quote(name))
	}
	seen[name] = true
}

var artifactPattern = regexp.MustCompile(`^[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*$`)

// checkTarget checks a directory into which an archive is unpacked.
func checkTarget(l *faultList, p run.Path, to string) {
	checkText(l, p, to)
	if len(to) > run.MaxArchivePath {
		l.add(p, run.FaultOverLimit, "the path has %d bytes; the limit is %d", len(to), run.MaxArchivePath)
	}
}

func checkArchivePaths(l *faultList, p run.Path, a run.ArchivePaths) {
	checkTarget(l, p.Key("root"), a.Root)
	if len(a.Paths) > run.MaxArchivePaths {
		l.add(p.Key("paths"), run.FaultOverLimit, "there are %d paths; the limit is %d", len(a.Paths), run.MaxArchivePaths)
		return
	}
	root := a.Root
	if len(root) > run.MaxArchivePath {
		root = "" // it is compared with each path, and is a fault already
	}
	relative, absolute := false, false
	for i, glob := range items(l, a.Paths) {
		at, pattern := p.Key("paths").Index(i), strings.TrimPrefix(glob, "!")
		checkTarget(l, at, glob)
		switch {
		case pattern == "":
			l.add(at, run.FaultRequired, "the path is empty")
		case !ValidGlob(pattern):
			l.add(at, run.FaultBadFormat, "%s is not a glob", quote(glob))
		case slices.Contains(strings.Split(pattern, "/"), ".."):
			l.add(at, run.FaultBadValue, "%s leads out of the directory", quote(glob))
		case path.IsAbs(pattern) && path.IsAbs(root) && !below(pattern, root):
			l.add(at, run.FaultBadValue, "%s does not lie below the root %s", quote(glob), quote(root))
		case path.IsAbs(pattern) && root != "" && !path.IsAbs(root):
			l.add(at, run.FaultContradiction, "%s is absolute, and the root is not", quote(glob))
		}
		if path.IsAbs(pattern) {
			absolute = true
		} else if pattern != "" {
			relative = true
		}
	}
	if relative && absolute && a.Root == "" {
		l.add(p.Key("root"), run.FaultRequired, "some paths are absolute and some are not: a root says what the others are relative to")
	}
}

// below reports whether a path is a directory or lies in it.
func below(name, dir string) bool {
	rest, ok := strings.CutPrefix(name, strings.TrimSuffix(path.Clean(dir), "/"))
	return ok && (rest == "" || rest[0] == '/')
}

// localPath reports whether a path stays in the directory that it is relative to.
func localPath(name string) bool {
	clean := path.Clean(name)
	return !path.IsAbs(clean) && clean != ".." && !strings.HasPrefix(clean, "../")
}

// ValidGlob reports whether a glob has the form that package archive takes.
func ValidGlob(glob string) bool {
	depth := 0
	for i := 0; i < len(glob); i++ {
		switch glob[i] {
		case '\\':
			if i++; i == len(glob) {
				return false
			}
		case '[':
			end := classEnd(glob, i+1)
			if end < 0 {
				return false
			}
			i = end
		case '{':
			depth++
		case '}':
			if depth--; depth < 0 {
				return false
			}
		}
	}
	return depth == 0
}

// classEnd returns the index of the bracket that ends a character class, -1 for
// none.
func classEnd(glob string, i int) int {
	if i < len(glob) && (glob[i] == '^' || glob[i] == '!') {
		i++
	}
	if i >= len(glob) || glob[i] == ']' {
		return -1
	}
	for ; i < len(glob); i++ {
		switch glob[i] {
		case '\\':
			i++
		case ']':
			return i
		}
	}
	return -1
}

func checkCacheKeys(l *faultList, p run.Path, keys []string) {
	switch {
	case len(keys) == 0:
		l.add(p, run.FaultRequired, "there are no keys")
	case len(keys) > run.MaxCacheKeys:
		l.add(p, run.FaultOverLimit, "there are %d keys; the limit is %d", len(keys), run.MaxCacheKeys)
		return
	}
	for i, key := range items(l, keys) {
		checkCacheKey(l, p.Index(i), key)
	}
}

func checkCacheKey(l *faultList, p run.Path, key string) {
	checkText(l, p, key)
	switch {
	case strings.TrimSpace(key) == "":
		l.add(p, run.FaultRequired, "a cache has a key")
		return
	case len(key) > run.MaxCacheKeyBytes:
		l.add(p, run.FaultOverLimit, "the key has %d bytes; the limit is %d", len(key), run.MaxCacheKeyBytes)
		return
	case run.HasOutputRef(key):
		l.add(p, run.CodeNotSupported, "outputs are allowed in the environment of tasks and steps only; use a variable here: {{ env \"NAME\" }}")
		return
	}
	if err := run.CheckCacheKeyTemplate(inputs.Plain(key)); err != nil {
		l.add(p, run.FaultBadFormat, "%s", err.Error())
	}
}

// checkScope checks the group whose runs share a cache.
func checkScope(l *faultList, p run.Path, scope, group string) {
	switch {
	case scope == "":
	case strings.Count(scope, "/") < 2 || !below(group, scope) || path.Clean(scope) != scope:
		l.add(p, run.FaultBadValue, "%s is neither the run's group nor one above it of at least two elements, such as %s", quote(scope), quote(run.GroupRoot(group)))
	}
}
