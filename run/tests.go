package run

import "slices"

// MaxFailedTests is how many names of failed tests a summary has at most.
const MaxFailedTests = 100

// TestSummary is what reports of tests say.
type TestSummary struct {
	Tests   int `json:"tests"`
	Failed  int `json:"failed"` // those with errors included
	Skipped int `json:"skipped"`
	// FailedNames are the names of the first MaxFailedTests that failed, in order.
	FailedNames []string `json:"failed_names,omitempty"`
	// Faults say which reports could not be read, and why.
	Faults []string `json:"faults,omitempty"`
}

// maxFaultyReports is how many reports are named that could not be read.
const maxFaultyReports = 10

// Add adds another summary.
func (t *TestSummary) Add(o TestSummary) {
	t.Tests += o.Tests
	t.Failed += o.Failed
	t.Skipped += o.Skipped
	t.FailedNames = firstOf(MaxFailedTests, t.FailedNames, o.FailedNames)
	t.Faults = firstOf(maxFaultyReports, t.Faults, o.Faults)
}

func firstOf(n int, a, b []string) []string {
	out := slices.Concat(a, b)
	return slices.Clip(out[:min(n, len(out))])
}
