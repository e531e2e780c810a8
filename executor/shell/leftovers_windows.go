package shell

import "github.com/drover-run/drover/executor/shim/process"

func (h *handle) leftovers(process.State) ([]int, error) { return nil, nil }
