package shell

import "github.com/drover-run/drover/executor/shim"

func (h *handle) leftovers(shim.State) ([]int, error) { return nil, nil }
