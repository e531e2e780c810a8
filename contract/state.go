package contract

// RunState is what the run workflow carries over continue-as-new.
type RunState struct{}
