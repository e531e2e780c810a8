package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"
)

const (
	quarantineFile = "test/quarantine.txt"
	// maxQuarantined keeps the quarantine from being a place where tests stay.
	maxQuarantined = 5
	// quarantine is how long the gate leaves a test out. After that it runs again.
	quarantine = 14 * 24 * time.Hour
)

// quarantined is a test that is known to be flaky.
type quarantined struct {
	test
	since  time.Time
	reason string
}

func (q quarantined) expired(now time.Time) bool { return now.Sub(q.since) > quarantine }

// readQuarantine reads the quarantine: lines of the package's directory, the test, the
// date since when, and the reason. It refuses tests that do not exist, names that several
// packages have, and more lines than there may be.
func readQuarantine(file string, packages []testPackage) ([]quarantined, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("open the quarantine: %w", err)
	}
	defer func() { _ = f.Close() }()
	var all []quarantined
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		q, err := parseQuarantined(line, testsOf(packages))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, q)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the quarantine: %w", err)
	}
	if len(all) > maxQuarantined {
		return nil, fmt.Errorf("%s has %d tests; at most %d may be in it: repair one", file, len(all), maxQuarantined)
	}
	return all, nil
}

func parseQuarantined(line string, tests []test) (quarantined, error) {
	fields := strings.Fields(line)
	if len(fields) < 4 {
		return quarantined{}, fmt.Errorf("%q is not: package, test, date since when, reason", line)
	}
	since, err := time.Parse(time.DateOnly, fields[2])
	if err != nil {
		return quarantined{}, fmt.Errorf("%q: the date is not like 2006-01-02", line)
	}
	var found []test
	at := -1
	for _, x := range tests {
		if x.name == fields[1] {
			if path.Join(x.module, x.dir) == path.Clean(fields[0]) {
				at = len(found)
			}
			found = append(found, x)
		}
	}
	switch {
	case at < 0:
		return quarantined{}, fmt.Errorf("there is no test %s in %s", fields[1], fields[0])
	case len(found) > 1:
		return quarantined{}, fmt.Errorf("several packages have a test %s: give this one a name of its own", fields[1])
	}
	return quarantined{test: found[at], since: since, reason: strings.Join(fields[3:], " ")}, nil
}

// printSkipped prints the expression for -skip, "" if no test is left out.
func printSkipped(all []quarantined, now time.Time) {
	var names []string
	for _, q := range all {
		if !q.expired(now) {
			names = append(names, q.name)
		}
	}
	if len(names) > 0 {
		fmt.Println("^(" + strings.Join(names, "|") + ")$")
	}
}

// printQuarantine prints the quarantine. Its error names the tests that are too long in it.
func printQuarantine(all []quarantined, now time.Time) error {
	var faults []error
	for _, q := range all {
		fmt.Printf("%s\t%d\t^%s$\t%s\n", q.module, 10, q.name, testPackage{dir: q.dir}.pattern())
		if q.expired(now) {
			faults = append(faults, fmt.Errorf("%s has been in %s since %s: repair it (%s)", q.name, quarantineFile, q.since.Format(time.DateOnly), q.reason))
		}
	}
	return errors.Join(faults...)
}
