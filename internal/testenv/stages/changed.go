package main

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// changedSince returns the test functions whose text no test function of that name had in
// the changed files of a commit. Tests that only moved have not changed.
func changedSince(commit string) (map[string]bool, error) {
	before, after := map[string]bool{}, map[string]string{}
	files, err := git("diff", "--name-only", "--no-renames", commit, "--", "*_test.go")
	if err != nil {
		return nil, err
	}
	for file := range strings.Lines(files) {
		file = strings.TrimSpace(file)
		if old, err := git("show", commit+":"+file); err == nil { // else it is new
			texts, err := testTexts(file, old)
			if err != nil {
				return nil, err
			}
			for _, text := range texts {
				before[text] = true
			}
		}
		now, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // it was removed
		}
		if err != nil {
			return nil, fmt.Errorf("read a test file: %w", err)
		}
		texts, err := testTexts(file, string(now))
		if err != nil {
			return nil, err
		}
		for name, text := range texts {
			after[path.Dir(file)+" "+name] = text
		}
	}
	changed := map[string]bool{}
	for place, text := range after {
		if !before[text] {
			changed[place] = true
		}
	}
	return changed, nil
}

// testTexts returns the texts of the test functions of a file by their names.
func testTexts(name, source string) (map[string]string, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("read the tests: %w", err)
	}
	texts := map[string]string{}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && isTest(f.Name.Name) {
			texts[f.Name.Name] = source[set.Position(f.Pos()).Offset:set.Position(f.End()).Offset]
		}
	}
	return texts, nil
}

func git(args ...string) (string, error) {
	out, err := exec.CommandContext(context.Background(), "git", args...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}

// callsOfChanged returns the calls that run the changed tests of the stage unit, and the
// changed tests of other stages.
func callsOfChanged(packages []testPackage, changed map[string]bool) (calls []call, others []test) {
	for _, module := range modules() {
		c := call{module: module, minutes: 5}
		var names []string
		for _, x := range testsOf(packages) {
			switch {
			case x.module != module || !changed[filepath.ToSlash(filepath.Join(x.module, x.dir))+" "+x.name]:
			case x.stage != unit:
				others = append(others, x)
			default:
				names = append(names, x.name)
				if p := (testPackage{dir: x.dir}).pattern(); !slices.Contains(c.packages, p) {
					c.packages = append(c.packages, p)
				}
			}
		}
		if len(names) > 0 {
			slices.Sort(names)
			c.run = "^(" + strings.Join(slices.Compact(names), "|") + ")$"
			calls = append(calls, c)
		}
	}
	return calls, others
}
