package run

import "slices"

// MaxFailedTests is the most names of failed tests in a summary.
const MaxFailedTests = 100

// TestSummary summarizes test reports.
type TestSummary struct {
	Tests   int `json:"tests"`
	Failed  int `json:"failed"` // including tests with errors
	Skipped int `json:"skipped"`
	// FailedNames are the names of the first MaxFailedTests that failed, in order.
	FailedNames []string `json:"failed_names,omitempty"`
	// Faults name the reports that could not be read, and say why.
	Faults []string `json:"faults,omitempty"`
}

// maxFaultyReports is the most unreadable reports that a summary names.
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
