package engine

import (
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/joshdk/go-junit"

	"github.com/drover-run/drover/archive"
	"github.com/drover-run/drover/run"
)

// Bounds of what is read of reports of tests. A report is in memory as a whole.
const (
	maxReportBytes  = 16 << 20
	maxReports      = 2000
	maxReportsBytes = 128 << 20
	maxTestName     = 500
)

// testReports reads the reports of tests in an archive. What cannot be read is
// told by the summary; the error is one of the store, or of the archive itself.
func (e *Engine) testReports(ctx context.Context, object string) (run.TestSummary, error) {
	content, err := e.archives.GetArchive(ctx, object, 0)
	if err != nil {
		return run.TestSummary{}, err
	}
	defer func() { _ = content.Close() }() // it was only read
	return readReports(ctx, content)
}

func readReports(ctx context.Context, content io.Reader) (run.TestSummary, error) {
	var all run.TestSummary
	reports, bytes := 0, int64(0)
	err := archive.List(ctx, content, func(entry archive.Entry, r io.Reader) bool {
		if !entry.Mode.IsRegular() || entry.Link != "" || !strings.EqualFold(path.Ext(entry.Name), ".xml") {
			return true
		}
		reports++
		bytes += entry.Size
		switch {
		case reports > maxReports || bytes > maxReportsBytes:
			all.Add(run.TestSummary{Faults: []string{fmt.Sprintf("%s and what follows were not read: there are too many reports", entry.Name)}})
			return false
		case entry.Size > maxReportBytes:
			all.Add(run.TestSummary{Faults: []string{fmt.Sprintf("%s: it has more than %d bytes", entry.Name, maxReportBytes)}})
			return true
		}
		summary, err := readReport(r)
		if err != nil {
			summary = run.TestSummary{Faults: []string{clipText(entry.Name + ": " + err.Error())}}
		}
		all.Add(summary)
		return true
	})
	return all, err
}

func readReport(r io.Reader) (out run.TestSummary, err error) {
	defer func() {
		if p := recover(); p != nil { // the library's, on input that is a stranger's
			err = fmt.Errorf("it cannot be read: %v", p)
		}
	}()
	suites, err := junit.IngestReader(r)
	if err != nil {
		return out, err
	}
	if len(suites) == 0 {
		return out, fmt.Errorf("it has no test suite")
	}
	for _, s := range suites {
		addSuite(&out, s)
	}
	return out, nil
}

func addSuite(out *run.TestSummary, s junit.Suite) {
	for _, t := range s.Tests {
		out.Tests++
		switch t.Status {
		case junit.StatusFailed, junit.StatusError:
			out.Failed++
			if len(out.FailedNames) < run.MaxFailedTests {
				name := strings.Join(slices.DeleteFunc([]string{t.Classname, t.Name}, func(s string) bool { return s == "" }), ".")
				out.FailedNames = append(out.FailedNames, clipText(name))
			}
		case junit.StatusSkipped:
			out.Skipped++
		case junit.StatusPassed:
		}
	}
	for _, inner := range s.Suites {
		addSuite(out, inner)
	}
}

// clipText makes a text of a stranger's fit to be shown.
func clipText(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
	if len(text) > maxTestName {
		text = strings.ToValidUTF8(text[:maxTestName], "") + "…"
	}
	return text
}
