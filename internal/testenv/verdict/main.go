// Command verdict decides, at the end of `make test`, whether the tests passed. It reads
// the event files (`gotestsum --jsonfile`) of all modules, and prints what failed and
// what was flaky: red at first, and green when gotestsum ran it again.
//
// The exit status of gotestsum is not enough. A package that fails without a failed
// test (a leaked goroutine, TestMain, a panic, a timeout) is run again without any of
// its tests, and so passes.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	maxFlaky := flag.Int("max-flaky", 3, "flaky tests that are still green, over all files")
	each := flag.Bool("each", false, "fail if no test of a package ran")
	logs := flag.String("flaky", "", "a `directory` for the logs of flaky tests")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: verdict [-max-flaky N] [-each] [-flaky DIRECTORY] EVENT-FILE...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	var r results
	for _, name := range flag.Args() {
		if err := readFile(&r, name); err != nil {
			fmt.Fprintln(os.Stderr, "verdict:", err)
			os.Exit(1)
		}
	}
	v := r.verdict(*maxFlaky)
	if *each {
		v.failures = append(v.failures, r.withoutTests()...)
	}
	fmt.Print(v)
	if *logs != "" {
		if err := v.writeFlaky(*logs); err != nil {
			fmt.Fprintln(os.Stderr, "verdict:", err)
			os.Exit(1)
		}
	}
	if !v.green() {
		os.Exit(1)
	}
}

func readFile(r *results, name string) error {
	file, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("open the events: %w", err)
	}
	defer func() { _ = file.Close() }()
	if err := r.read(file); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}
