package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// event is a line of `go test -json` (go doc test2json).
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	ImportPath  string
	FailedBuild string
}

// results collects what the runs of tests and packages ended with. A test that
// gotestsum ran again has several runs, each in a new run of its package.
type results struct {
	packages map[string]*packageResults
}

type packageResults struct {
	running  bool
	failed   bool            // a test of the present run has failed
	panicked bool            // and so other tests of the present run may not have run
	open     map[string]bool // tests of the present run that have not ended
	output   []string        // the first lines of the present run that no test printed
	faults   []string
	tests    map[string]*testResults
}

// outputLines is how many lines of a failed package are shown: a leaked goroutine has
// about 20.
const outputLines = 100

// testResults counts the runs of a top-level test, and has the result of the last one.
type testResults struct {
	runs, failures int
	last           string
	output         strings.Builder // of the present run, subtests included
	failed         string          // the output of the failed runs
}

// read adds the events of a file.
func (r *results) read(from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if err := json.Unmarshal(line, &e); err != nil {
				return fmt.Errorf("decode an event: %w", err)
			}
			r.add(e)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
	}
}

func (r *results) add(e event) {
	if e.Package == "" {
		return // the output of a build, whose failure is in an event of the package
	}
	if r.packages == nil {
		r.packages = map[string]*packageResults{}
	}
	p := r.packages[e.Package]
	if p == nil {
		p = &packageResults{tests: map[string]*testResults{}, open: map[string]bool{}}
		r.packages[e.Package] = p
	}
	switch {
	case e.Action == "output":
		p.panicked = p.panicked || strings.HasPrefix(e.Output, "panic: ")
		if e.Test != "" {
			p.test(e.Test).output.WriteString(e.Output)
		} else if len(p.output) < outputLines {
			p.output = append(p.output, strings.TrimRight(e.Output, "\n"))
		}
	case e.Test == "":
		p.addRun(e)
	case e.Action == "run":
		p.open[e.Test] = true
	case e.Action == "pass", e.Action == "fail", e.Action == "skip":
		p.addTest(e)
	}
}

// addRun notes the begin or the end of a run of the package's tests.
func (p *packageResults) addRun(e event) {
	switch e.Action {
	case "start":
		p.running, p.failed, p.panicked, p.open, p.output = true, false, false, map[string]bool{}, nil
	case "pass", "skip":
		p.running = false
	case "fail":
		p.running = false
		switch {
		case e.FailedBuild != "":
			p.faults = append(p.faults, "does not build")
		case p.panicked:
			p.faults = append(p.faults, "panicked, or ran out of time")
		case len(p.open) > 0:
			p.faults = append(p.faults, "ended in the middle of "+strings.Join(slices.Sorted(maps.Keys(p.open)), ", "))
		case !p.failed:
			p.faults = append(p.faults, strings.Join(append([]string{"failed without a failed test"}, p.output...), "\n    "))
		}
	}
}

func (p *packageResults) addTest(e event) {
	delete(p.open, e.Test)
	if e.Action == "fail" {
		p.failed = true
	}
	if strings.Contains(e.Test, "/") {
		return // the top-level test fails with it
	}
	t := p.test(e.Test)
	t.runs++
	t.last = e.Action
	if e.Action == "fail" {
		t.failures++
		t.failed += t.output.String()
	}
	t.output.Reset()
}

// test returns the results of the top-level test that a test belongs to.
func (p *packageResults) test(name string) *testResults {
	name, _, _ = strings.Cut(name, "/")
	if p.tests[name] == nil {
		p.tests[name] = &testResults{}
	}
	return p.tests[name]
}

// flakyTest failed at first, and passed when it ran again.
type flakyTest struct {
	name string // of the package and the test
	line string
	log  string // the output of the failed runs
}

// verdict is what is printed: lines about failures and flaky tests, and counts.
type verdict struct {
	failures                []string
	flaky                   []flakyTest
	passed, failed, skipped int
	maxFlaky                int
}

func (r *results) verdict(maxFlaky int) verdict {
	v := verdict{maxFlaky: maxFlaky}
	for _, name := range slices.Sorted(maps.Keys(r.packages)) {
		p := r.packages[name]
		if p.running {
			p.faults = append(p.faults, "did not end")
		}
		for _, fault := range slices.Compact(p.faults) {
			v.failures = append(v.failures, fmt.Sprintf("FAILED %s: %s", name, fault))
		}
		for _, test := range slices.Sorted(maps.Keys(p.tests)) {
			v.addTest(name, test, p.tests[test])
		}
	}
	if v.passed+v.failed+v.skipped == 0 && len(v.failures) == 0 {
		v.failures = append(v.failures, "FAILED: no test ran")
	}
	if len(v.flaky) > maxFlaky {
		v.failures = append(v.failures, fmt.Sprintf("FAILED: %d flaky tests; the limit is %d", len(v.flaky), maxFlaky))
	}
	return v
}

// withoutTests returns a failure for each package of which no test passed or failed: a
// name that was chosen for it does not exist, or needs what is missing.
func (r *results) withoutTests() []string {
	var failures []string
	for _, name := range slices.Sorted(maps.Keys(r.packages)) {
		ran := slices.ContainsFunc(slices.Collect(maps.Values(r.packages[name].tests)), func(t *testResults) bool { return t.runs > 0 && t.last != "skip" })
		if !ran {
			failures = append(failures, fmt.Sprintf("FAILED %s: no test ran", name))
		}
	}
	return failures
}

func (v *verdict) addTest(name, test string, t *testResults) {
	switch {
	case t.runs == 0: // it did not end, which is a fault of the package
	case t.last == "skip" && t.failures == 0:
		v.skipped++
	case t.last == "pass" && t.failures == 0:
		v.passed++
	case t.last == "pass":
		v.passed++
		v.flaky = append(v.flaky, flakyTest{name + "." + test, fmt.Sprintf("FLAKY %s.%s: failed %d of %d times", name, test, t.failures, t.runs), t.failed})
	default:
		v.failed++
		v.failures = append(v.failures, fmt.Sprintf("FAILED %s.%s: %d of %d times; repeat it with: go test -count=1 -run '^%s$' %s", name, test, t.failures, t.runs, test, name))
	}
}

func (v verdict) green() bool { return len(v.failures) == 0 }

// writeFlaky writes a file for each flaky test: the line about it, and the output of its
// failed runs.
func (v verdict) writeFlaky(dir string) error {
	for _, f := range v.flaky {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("create the directory of flaky tests: %w", err)
		}
		name := filepath.Join(dir, strings.ReplaceAll(f.name, "/", "_")+".log")
		if err := os.WriteFile(name, []byte(f.line+"\n"+f.log), 0o644); err != nil {
			return fmt.Errorf("write the log of a flaky test: %w", err)
		}
	}
	return nil
}

// String has the counts in the last line, in the form that many tools read.
func (v verdict) String() string {
	lines := slices.Clone(v.failures)
	for _, f := range v.flaky {
		lines = append(lines, f.line)
	}
	lines = append(lines, fmt.Sprintf("tests: %d passed, %d failed, %d skipped", v.passed, cmp.Or(v.failed, len(v.failures)), v.skipped))
	return strings.Join(lines, "\n") + "\n"
}
