package testenv

import (
	"flag"
	"runtime"
	"strconv"
)

// Parallel is for TestMain of a package whose tests mostly wait: it lets so many
// times as many of them run at a time as there are processors, unless -parallel
// says how many.
func Parallel(times int) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(strconv.Itoa(times * runtime.GOMAXPROCS(0))) // a number is what it takes
	}
}
