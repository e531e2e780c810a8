package run

import (
	"path"
	"slices"
	"strings"
	"text/template/parse"
	"unicode"
)

// CacheKeyFunctions returns the functions that templates of cache keys may
// call. The shim evaluates them in the environment of the step:
//
//   - sha256 and md5 of the files that globs match, relative to the step's working
//     directory;
//   - env of a variable of the step;
//   - os and arch of the environment;
//   - date in a layout of Go's, and year, month, day and week of today in UTC.
func CacheKeyFunctions() []string {
	return []string{"sha256", "md5", "env", "os", "arch", "date", "year", "month", "day", "week"}
}

// checkArchives checks the archive steps of a task.
func checkArchives(l *faultList, p Path, group string, steps []Step) {
	names := make(map[string]bool)
	for i := range steps {
		at, s := p.Index(i), &steps[i]
		if w := s.SaveWorkspace; w != nil {
			at := at.Key(StepSaveWorkspace)
			checkArchivePaths(l, at, w.ArchivePaths)
			checkText(l, at.Key("to"), w.To)
			if !localPath(w.To) {
				l.add(at.Key("to"), FaultBadValue, "%s leads out of the workspace", brief(w.To))
			}
		}
		if w := s.RestoreWorkspace; w != nil {
			checkTarget(l, at.Key(StepRestoreWorkspace).Key("to"), w.To)
		}
		if c := s.SaveCache; c != nil {
			at := at.Key(StepSaveCache)
			checkCacheKey(l, at.Key("key"), c.Key)
			checkArchivePaths(l, at, c.ArchivePaths)
			checkScope(l, at.Key("scope"), c.Scope, group)
		}
		if c := s.RestoreCache; c != nil {
			at := at.Key(StepRestoreCache)
			checkCacheKeys(l, at.Key("keys"), c.Keys)
			checkTarget(l, at.Key("to"), c.To)
			checkScope(l, at.Key("scope"), c.Scope, group)
		}
		if a := s.SaveArtifacts; a != nil {
			at := at.Key(StepSaveArtifacts)
			checkArtifactName(l, at.Key("name"), a.Name, names)
			checkArchivePaths(l, at, a.ArchivePaths)
			checkTimeout(l, at.Key("retention"), a.Retention)
		}
	}
}

func checkArtifactName(l *faultList, p Path, name string, seen map[string]bool) {
	switch {
	case name == "":
		l.add(p, FaultRequired, "artifacts have a name")
	case !artifactPattern.MatchString(name) || len(name) > MaxNameLength:
		l.add(p, FaultBadFormat, "%s is not the name of artifacts: 1 to %d letters, digits, dots, underscores and dashes, not dots alone",
			brief(name), MaxNameLength)
	case seen[name]:
		l.add(p, FaultDuplicate, "the task has other artifacts named %s", brief(name))
	}
	seen[name] = true
}

var artifactPattern = newPattern(`^[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*$`)

// checkTarget checks a directory into which an archive is unpacked.
func checkTarget(l *faultList, p Path, to string) {
	checkText(l, p, to)
	if len(to) > MaxArchivePath {
		l.add(p, FaultOverLimit, "the path has %d bytes; the limit is %d", len(to), MaxArchivePath)
	}
}

func checkArchivePaths(l *faultList, p Path, a ArchivePaths) {
	checkTarget(l, p.Key("root"), a.Root)
	if len(a.Paths) > MaxArchivePaths {
		l.add(p.Key("paths"), FaultOverLimit, "there are %d paths; the limit is %d", len(a.Paths), MaxArchivePaths)
		return
	}
	root := a.Root
	if len(root) > MaxArchivePath {
		root = "" // it is compared with each path, and is a fault already
	}
	relative, absolute := false, false
	for i, glob := range items(l, a.Paths) {
		at, pattern := p.Key("paths").Index(i), strings.TrimPrefix(glob, "!")
		checkTarget(l, at, glob)
		switch {
		case pattern == "":
			l.add(at, FaultRequired, "the path is empty")
		case !ValidGlob(pattern):
			l.add(at, FaultBadFormat, "%s is not a glob", brief(glob))
		case slices.Contains(strings.Split(pattern, "/"), ".."):
			l.add(at, FaultBadValue, "%s leads out of the directory", brief(glob))
		case path.IsAbs(pattern) && path.IsAbs(root) && !below(pattern, root):
			l.add(at, FaultBadValue, "%s does not lie below the root %s", brief(glob), brief(root))
		case path.IsAbs(pattern) && root != "" && !path.IsAbs(root):
			l.add(at, FaultContradiction, "%s is absolute, and the root is not", brief(glob))
		}
		if path.IsAbs(pattern) {
			absolute = true
		} else if pattern != "" {
			relative = true
		}
	}
	if relative && absolute && a.Root == "" {
		l.add(p.Key("root"), FaultRequired, "some paths are absolute and some are not: a root says what the others are relative to")
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

func checkCacheKeys(l *faultList, p Path, keys []string) {
	switch {
	case len(keys) == 0:
		l.add(p, FaultRequired, "there are no keys")
	case len(keys) > MaxCacheKeys:
		l.add(p, FaultOverLimit, "there are %d keys; the limit is %d", len(keys), MaxCacheKeys)
		return
	}
	for i, key := range items(l, keys) {
		checkCacheKey(l, p.Index(i), key)
	}
}

func checkCacheKey(l *faultList, p Path, key string) {
	checkText(l, p, key)
	switch {
	case strings.TrimSpace(key) == "":
		l.add(p, FaultRequired, "a cache has a key")
		return
	case len(key) > MaxCacheKeyBytes:
		l.add(p, FaultOverLimit, "the key has %d bytes; the limit is %d", len(key), MaxCacheKeyBytes)
		return
	case outputStartPattern.MatchString(key):
		l.add(p, CodeNotSupported, "outputs are allowed in the environment of tasks and steps only; use a variable here: {{ env \"NAME\" }}")
		return
	}
	functions := make(map[string]any)
	for _, name := range CacheKeyFunctions() {
		functions[name] = true
	}
	trees, err := parse.Parse("key", key, "", "", functions)
	switch {
	case err != nil:
		l.add(p, FaultBadFormat, "the template cannot be read: %s", strings.TrimPrefix(err.Error(), "template: key:1: "))
	case len(trees) != 1 || !plainTemplate(trees["key"]):
		l.add(p, FaultBadFormat, "a key is made of text and of calls of %s", strings.Join(CacheKeyFunctions(), ", "))
	}
}

// plainTemplate reports whether a template is made of text and calls.
func plainTemplate(t *parse.Tree) bool {
	if t == nil || t.Root == nil {
		return false
	}
	for _, node := range t.Root.Nodes {
		switch n := node.(type) {
		case *parse.TextNode, *parse.CommentNode:
		case *parse.ActionNode:
			if len(n.Pipe.Decl) > 0 || slices.ContainsFunc(n.Pipe.Cmds, func(c *parse.CommandNode) bool { return !plainCommand(c) }) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func plainCommand(c *parse.CommandNode) bool {
	for _, arg := range c.Args {
		switch a := arg.(type) {
		case *parse.IdentifierNode, *parse.StringNode, *parse.NumberNode:
		case *parse.PipeNode:
			if len(a.Decl) > 0 || slices.ContainsFunc(a.Cmds, func(c *parse.CommandNode) bool { return !plainCommand(c) }) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// CheckCacheKey checks the key of a cache after its template was evaluated. The
// error has CodeInvalid.
func CheckCacheKey(key string) error {
	switch {
	case strings.TrimSpace(key) == "":
		return Errorf(CodeInvalid, "the key of a cache is empty")
	case len(key) > MaxCacheKeyBytes:
		return Errorf(CodeInvalid, "the key of a cache has %d bytes; the limit is %d", len(key), MaxCacheKeyBytes)
	case strings.ContainsFunc(key, unicode.IsControl) || strings.ToValidUTF8(key, "") != key:
		return Errorf(CodeInvalid, "the key %s of a cache has characters that cannot be shown", brief(key))
	}
	return nil
}

// checkScope checks the group whose runs share a cache.
func checkScope(l *faultList, p Path, scope, group string) {
	switch {
	case scope == "":
	case strings.Count(scope, "/") < 2 || !below(group, scope) || path.Clean(scope) != scope:
		l.add(p, FaultBadValue, "%s is neither the run's group nor one above it of at least two elements, such as %s", brief(scope), brief(GroupRoot(group)))
	}
}
