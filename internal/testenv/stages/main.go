// Command stages says which tests belong to which stage of the checks. A stage has all
// tests of some packages, or those that need a service; the stage unit has the rest.
//
//	stages calls STAGE     the calls of `go test` that run the tests of a stage (or of
//	                       smoke), a line each: the directory of the module, the
//	                       minutes that a package may take, the expression of -run, or
//	                       "-" for all tests, and the packages, separated by tabs
//	stages services STAGE  the services that these tests use, separated by commas
//	stages list            every test function and its stage
//	stages left            what `make test` leaves out, and how to run it
//	stages changed COMMIT  the calls of `go test` that run the tests of the stage unit that
//	                       have changed since a commit
//	stages skip            the expression for -skip of the tests in quarantine
//	stages quarantine      the calls of `go test` that run these tests; the exit status is 1
//	                       if one is in it for too long
package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "stages:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	command, name := "", ""
	switch len(args) {
	case 1:
		command = args[0]
	case 2:
		command, name = args[0], args[1]
	}
	if command == "services" {
		s, err := find(name)
		fmt.Println(strings.Join(s.services, ","))
		return err
	}
	packages, err := load(".")
	if err != nil {
		return err
	}
	switch command {
	case "calls":
		calls, err := callsOf(name, packages)
		printCalls(calls)
		return err
	case "list":
		for _, t := range testsOf(packages) {
			fmt.Printf("%-12s %s/%s %s\n", t.stage, t.module, t.dir, t.name)
		}
		return nil
	case "left":
		printLeft(packages)
		return nil
	case "changed":
		return printChanged(packages, name)
	case "skip", "quarantine":
		all, err := readQuarantine(quarantineFile, packages)
		if err != nil {
			return err
		}
		if command == "quarantine" {
			return printQuarantine(all, time.Now())
		}
		printSkipped(all, time.Now())
		return nil
	}
	return errors.New("usage: stages calls STAGE | services STAGE | list | left | changed COMMIT | skip | quarantine")
}

func printCalls(calls []call) {
	for _, c := range calls {
		fmt.Printf("%s\t%d\t%s\t%s\n", c.module, c.minutes, c.run, strings.Join(c.packages, " "))
	}
}

// printChanged prints the calls for changed tests, and to standard error those that they
// leave out.
func printChanged(packages []testPackage, commit string) error {
	changed, err := changedSince(commit)
	if err != nil {
		return err
	}
	calls, others := callsOfChanged(packages, changed)
	printCalls(calls)
	stages := map[string][]string{}
	for _, x := range others {
		stages[x.stage] = append(stages[x.stage], x.name)
	}
	for _, stage := range slices.Sorted(maps.Keys(stages)) {
		fmt.Fprintf(os.Stderr, "changed, and not repeated here: %s; make verify STAGES=%s\n", strings.Join(stages[stage], ", "), stage)
	}
	return nil
}

// printLeft lists the stages that `make test` leaves out.
func printLeft(packages []testPackage) {
	counts := map[string]int{}
	for _, t := range testsOf(packages) {
		counts[t.stage]++
	}
	fmt.Printf("\nThese were all tests that need only Go, git and make. Left out, each with its command and what it needs:\n")
	for _, s := range stages()[1:] {
		fmt.Printf("  make verify STAGES=%-11s %3d tests: %s\n", s.name, counts[s.name], s.needs)
	}
	fmt.Println("  make verify STAGES=browser     the web UI in Chromium: Node.js 20.19 or newer and a browser (apt-get install nodejs npm chromium)")
	fmt.Println("DROVER_SUITES=docker,postgres make test also runs those of its tests that need one of these, if they are installed.")
}

// find returns a stage by its name.
func find(name string) (stage, error) {
	var names []string
	for _, s := range append(stages(), smokeStage()) {
		if s.name == name {
			return s, nil
		}
		names = append(names, s.name)
	}
	return stage{}, fmt.Errorf("there is no stage %q; the stages are %s", name, strings.Join(names, ", "))
}
