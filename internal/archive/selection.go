package archive

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/drover-run/drover/run"
)

// Selection selects the files to pack.
type Selection struct {
	// Root is a directory. Names in the archive are relative to it.
	Root string
	// Paths are globs with ** and {a,b}, relative to the root or absolute. A
	// glob that begins with ! excludes its matches. A glob that matches a
	// directory matches everything below it. Of the globs that match, the last
	// one decides. No globs select everything.
	Paths []string
	// To is a directory of the archive that contains all files; "" or "." for
	// none.
	To string
	// SplitHardLinks packs each name of a file with several names as a separate file.
	SplitHardLinks bool
	// Exclude lists directories that are never packed, regardless of the globs
	// and of the name that leads to them.
	Exclude []string
}

// Check validates globs without reading any file. Use root "" if it is not
// known yet.
func Check(paths []string, root, to string) error {
	if to != "" && !filepath.IsLocal(filepath.FromSlash(path.Clean(to))) {
		return run.Errorf(run.CodeInvalid, "to: %q is outside the archive", to)
	}
	_, err := newMatcher(paths, root)
	return err
}

// glob is one item of a list of globs.
type glob struct {
	pattern string
	exclude bool
	base    string // all matches are this path, or below it; "." for anywhere
	depth   int    // maximum number of elements of a direct match; 0: any number
}

// matcher decides which names are packed.
type matcher []glob

func newMatcher(paths []string, root string) (matcher, error) {
	m := make(matcher, 0, len(paths))
	for _, text := range paths {
		g := glob{pattern: text}
		g.pattern, g.exclude = strings.CutPrefix(g.pattern, "!")
		pattern, err := below(root, g.pattern)
		if err != nil {
			return nil, err
		}
		g.pattern = pattern
		if !doublestar.ValidatePattern(pattern) {
			return nil, run.Errorf(run.CodeInvalid, "%q is not a glob", text)
		}
		if strings.ContainsAny(pattern, `*?[{\`) {
			g.base, _ = doublestar.SplitPattern(pattern)
		} else {
			g.base = pattern
		}
		if !strings.Contains(pattern, "**") {
			g.depth = depthOf(pattern)
		}
		m = append(m, g)
	}
	if len(m) > 0 && !slices.ContainsFunc(m, func(g glob) bool { return !g.exclude }) {
		// A list with only exclusions begins with everything.
		m = slices.Insert(m, 0, glob{pattern: "**", base: "."})
	}
	return m, nil
}

// below returns a glob relative to the root.
func below(root, pattern string) (string, error) {
	rel := pattern
	if strings.HasPrefix(pattern, "/") {
		prefix := strings.TrimSuffix(path.Clean(filepath.ToSlash(root)), "/")
		cut, ok := strings.CutPrefix(pattern, prefix)
		if root != "" && (!ok || cut != "" && cut[0] != '/') {
			return "", run.Errorf(run.CodeInvalid, "%q does not lie below %s", pattern, root)
		}
		rel = cut
	}
	rel = strings.Trim(rel, "/")
	for strings.HasPrefix(rel, "./") {
		rel = strings.TrimLeft(rel[2:], "/")
	}
	switch {
	case pattern == "":
		return "", run.Errorf(run.CodeInvalid, "a glob is empty")
	case rel == "" || rel == ".":
		return "**", nil
	case slices.Contains(strings.Split(rel, "/"), ".."):
		return "", run.Errorf(run.CodeInvalid, "%q leads out of the directory", pattern)
	}
	return rel, nil
}

func depthOf(name string) int { return strings.Count(name, "/") + 1 }

// decision is the result of a matcher for a name.
type decision struct {
	matched  []bool // by glob: it matches the name, or a directory above it
	selected bool
}

func (m matcher) start() decision {
	return decision{matched: make([]bool, len(m)), selected: len(m) == 0}
}

// decide decides on a name, given the decision on its directory.
func (m matcher) decide(parent decision, name string) decision {
	if len(m) == 0 {
		return parent
	}
	d := decision{matched: make([]bool, len(m))}
	for i, g := range m {
		d.matched[i] = parent.matched[i] || doublestar.MatchUnvalidated(g.pattern, name)
		if d.matched[i] {
			d.selected = !g.exclude
		}
	}
	return d
}

// reaches reports whether anything below a directory may be selected.
func (m matcher) reaches(d decision, name string) bool {
	if len(m) == 0 {
		return true
	}
	for i, g := range slices.Backward(m) {
		switch {
		case g.exclude && d.matched[i]:
			return false // earlier globs decide nothing below
		case g.exclude:
		case d.matched[i]:
			return true
		case g.depth > 0 && depthOf(name) >= g.depth:
		case g.base == "." || g.base == name || strings.HasPrefix(g.base, name+"/") || strings.HasPrefix(name, g.base+"/"):
			return true
		}
	}
	return false
}
