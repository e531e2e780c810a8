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
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(strconv.Itoa(times * runtime.GOMAXPROCS(0))) // cannot fail: the value is a number
	}
}
