package archives

import (
	"bufio"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/drover-run/drover/internal/mask"
	"github.com/drover-run/drover/internal/truncate"
	"github.com/drover-run/drover/run"
)

// Bounds of one test report in JUnit's format. It is read as a stream, and only
// names are kept of its text.
const (
	maxReportDepth = 100     // of nested elements
	maxReportTests = 500_000 // suites and tests, of all reports of an archive
	maxReportTag   = 1 << 20 // bytes of a tag with its attributes
	maxReportAttrs = 1000    // attributes of a tag
	maxTestName    = 500     // bytes that are kept
)

// reportElement is an open element of a report.
type reportElement struct {
	kind    elementKind
	summary run.TestSummary // of a suite: its own tests, in order of their names
	inner   run.TestSummary // of nested suites, which are listed after its own
	class   string          // of a test
	name    string          // likewise
	outcome string          // of a test: the last element that gives an outcome
}

type elementKind int

const (
	kindOutside elementKind = iota // outside of all suites
	kindSuite
	kindTest
	kindOther // elements without information on tests
)

// reportReader reads the reports of one archive.
type reportReader struct {
	masker *mask.Set
	left   int // suites and tests that may still follow
	open   []reportElement
}

// read returns the summary of a report, or an error that says why the report
// cannot be read.
func (p *reportReader) read(r io.Reader) (run.TestSummary, error) {
	from := &tagReader{r: bufio.NewReader(r)}
	decoder := xml.NewDecoder(from)
	p.open = append(p.open[:0], reportElement{kind: kindOutside})
	suites := false
	for {
		from.token()
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return run.TestSummary{}, err
		}
		switch t := token.(type) {
		case xml.StartElement:
			if err := p.start(t); err != nil {
				return run.TestSummary{}, err
			}
			suites = suites || p.top().kind == kindSuite
		case xml.EndElement:
			p.end()
		}
	}
	if !suites {
		return run.TestSummary{}, errors.New("it has no test suite")
	}
	return p.open[0].inner, nil
}

func (p *reportReader) top() *reportElement { return &p.open[len(p.open)-1] }

func (p *reportReader) start(t xml.StartElement) error {
	if len(p.open) > maxReportDepth {
		return fmt.Errorf("its elements are nested deeper than %d", maxReportDepth)
	}
	if len(t.Attr) > maxReportAttrs {
		return fmt.Errorf("it has a tag of more than %d attributes", maxReportAttrs)
	}
	e, parent := reportElement{kind: kindOther}, p.top()
	switch name := t.Name.Local; {
	case name == "testsuite" && (parent.kind == kindOutside || parent.kind == kindSuite):
		e.kind = kindSuite
	case parent.kind == kindOutside:
		e.kind = kindOutside
	case name == "testcase" && parent.kind == kindSuite:
		e.kind = kindTest
		e.class, e.name = testName(t.Attr)
	case parent.kind == kindTest && (name == "failure" || name == "error" || name == "skipped"):
		parent.outcome = name
	}
	if e.kind == kindSuite || e.kind == kindTest {
		if p.left--; p.left < 0 {
			return fmt.Errorf("the reports have more than %d suites and tests", maxReportTests)
		}
	}
	p.open = append(p.open, e)
	return nil
}

// testName returns the class and the name of a test. If an attribute is
// repeated, the last one counts.
func testName(attrs []xml.Attr) (class, name string) {
	for _, a := range attrs {
		switch a.Name.Local {
		case "classname":
			class = a.Value
		case "name":
			name = a.Value
		}
	}
	return class, name
}

func (p *reportReader) end() {
	e := *p.top()
	p.open = p.open[:len(p.open)-1]
	parent := p.top()
	switch e.kind {
	case kindTest:
		p.count(&parent.summary, e)
	case kindSuite:
		e.summary.Add(e.inner)
		parent.inner.Add(e.summary)
	case kindOutside:
		parent.inner.Add(e.inner)
	case kindOther:
	}
}

// count adds a test to those of its suite.
func (p *reportReader) count(to *run.TestSummary, e reportElement) {
	to.Tests++
	switch e.outcome {
	case "failure", "error":
		to.Failed++
		if len(to.FailedNames) < run.MaxFailedTests {
			if e.class != "" && e.name != "" {
				e.class += "."
			}
			to.FailedNames = append(to.FailedNames, p.displayText(e.class+e.name))
		}
	case "skipped":
		to.Skipped++
	}
}

// displayText returns a text of a report for display. It masks secrets before it cuts
// the text.
func (p *reportReader) displayText(text string) string { return clipText(p.masker.String(text)) }

// clipText makes untrusted text safe for display.
func clipText(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
	return truncate.String(text, maxTestName, "…")
}

// tagReader bounds the tags that an XML decoder reads: each attribute of a tag
// takes far more memory than it has bytes. Text has no such bound. The decoder
// reads single bytes, and no further than it needs.
type tagReader struct {
	r    *bufio.Reader
	read int // bytes of the current token
	last byte
	open bool // the token began with <
	tag  bool // the token is the tag of an element
}

// token begins a new token. After text the decoder has read one byte of it.
func (t *tagReader) token() {
	t.read, t.open, t.tag = 0, false, false
	if t.last == '<' {
		t.read, t.open = 1, true
	}
}

// ReadByte implements io.ByteReader.
func (t *tagReader) ReadByte() (byte, error) {
	b, err := t.r.ReadByte()
	if err != nil {
		return 0, err
	}
	t.last = b
	switch t.read++; t.read {
	case 1:
		t.open = b == '<'
	case 2:
		t.tag = t.open && b != '!' && b != '?'
	}
	if t.tag && t.read > maxReportTag {
		return 0, fmt.Errorf("it has a tag of more than %d bytes", maxReportTag)
	}
	return b, nil
}

// Read implements io.Reader. A decoder of an io.ByteReader does not call it.
func (t *tagReader) Read([]byte) (int, error) {
	return 0, errors.New("reports are read by single bytes")
}
