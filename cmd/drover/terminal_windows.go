package main

import "os"

// resizes returns a channel that receives nothing: Windows has no signal for a change
// of the size.
func resizes() (<-chan os.Signal, func()) { return nil, func() {} }
