package testenv

import (
	"flag"
	"runtime"
	"strconv"
)

// Parallel sets the number of parallel tests to a multiple of GOMAXPROCS, unless
// the flag -parallel is set. Call it from TestMain of a package whose tests mostly
// wait.
func Parallel(times int) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == parallelFlag })
	if !set {
		_ = flag.Set(parallelFlag, strconv.Itoa(times*runtime.GOMAXPROCS(0))) // cannot fail: the flag exists, and the value is a number
	}
}

const parallelFlag = "test.parallel"
