package main

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// call is a call of `go test`.
type call struct {
	module   string
	minutes  int
	run      string
	packages []string
}

// test is a test function with the stage that it belongs to.
type test struct {
	module, dir, name, stage string
}

// allTests is the value of call.run for all tests.
const allTests = "-"

// callsOf returns the calls that run all tests of a stage.
func callsOf(name string, packages []testPackage) ([]call, error) {
	s, err := find(name)
	if err != nil {
		return nil, err
	}
	if name == smoke {
		return smokeCalls(), nil
	}
	var calls []call
	for _, module := range modules() {
		whole := call{module: module, minutes: s.minutes, run: allTests}
		some := call{module: module, minutes: s.minutes}
		var names []string
		for _, p := range packages {
			switch owner := ownerOf(p); {
			case p.module != module:
			case owner == name:
				whole.packages = append(whole.packages, p.pattern())
			case owner != unit:
			default:
				n := len(names)
				for _, f := range slices.Sorted(maps.Keys(p.tests)) {
					if stageOf(p, f) == name {
						names = append(names, f)
					}
				}
				if len(names) > n {
					some.packages = append(some.packages, p.pattern())
				}
			}
		}
		some.run = "^(" + strings.Join(names, "|") + ")$"
		for _, c := range []call{whole, some} {
			if len(c.packages) > 0 && (c.run == allTests || name != unit) {
				calls = append(calls, c)
			}
		}
	}
	return calls, nil
}

// testsOf returns all tests in the order of their places.
func testsOf(packages []testPackage) []test {
	var all []test
	for _, p := range packages {
		for _, name := range slices.Sorted(maps.Keys(p.tests)) {
			all = append(all, test{module: p.module, dir: p.dir, name: name, stage: stageOf(p, name)})
		}
	}
	return all
}

// ownerOf returns the stage that has all tests of a package, unit if none has.
func ownerOf(p testPackage) string {
	for _, s := range stages() {
		for _, pattern := range s.packages[p.module] {
			tree, below := strings.CutSuffix(pattern, "/...")
			dir := path.Clean(tree)
			if p.dir == dir || below && (dir == "." || strings.HasPrefix(p.dir, dir+"/")) {
				return s.name
			}
		}
	}
	return unit
}

// stageOf returns the one stage that runs the whole of a test.
func stageOf(p testPackage, name string) string {
	if owner := ownerOf(p); owner != unit {
		return owner
	}
	for _, s := range stages() {
		if slices.ContainsFunc(s.serves, func(service string) bool { return p.tests[name][service] }) {
			return s.name
		}
	}
	return unit
}
