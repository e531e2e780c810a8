package archives

import (
	"bytes"
	"slices"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/cputime"
	"github.com/drover-run/drover/run"
)

// FuzzReport reads arbitrary test reports: reading must not cost far more than reading
// an ordinary report of the same length, and ends with a consistent summary or with a
// reason.
func FuzzReport(f *testing.F) {
	for _, text := range []string{
		"", " ", "<", "<testsuite/>", "<a></b>", "<testsuite><testcase name='a'><failure/></testcase></testsuite>",
		"<testsuites><testsuite><testsuite><testcase name='a' classname='b'><skipped/></testcase></testsuite></testsuite></testsuites>",
		"<!DOCTYPE a [<!ENTITY b 'c'>]><testsuite name='&b;'/>", "<?xml version='1.0' encoding='x'?><testsuite/>",
		"<testsuite><![CDATA[<testcase/>]]><!-- - --></testsuite>", "<x:testsuite xmlns:x='y'><x:testcase x:name='&#65;'/></x:testsuite>",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var got run.TestSummary
		var err error
		read := func(report []byte) { got, err = (&reportReader{left: maxReportTests}).read(bytes.NewReader(report)) }
		ordinary := bytes.Repeat([]byte("<testcase classname='a' name='b'/>"), 1000+len(data)/30)
		const times = 20
		cputime.AtMost(t, times, func() { read(slices.Concat([]byte("<testsuite>"), ordinary, []byte("</testsuite>"))) }, func() { read(data) })
		again, errAgain := (&reportReader{left: maxReportTests}).read(iotest.OneByteReader(bytes.NewReader(data)))
		require.Equal(t, err, errAgain)
		require.Equal(t, got, again)
		if err != nil {
			require.Zero(t, got)
			return
		}
		require.LessOrEqual(t, got.Failed+got.Skipped, got.Tests)
		require.Len(t, got.FailedNames, min(got.Failed, run.MaxFailedTests))
		for _, name := range got.FailedNames {
			require.True(t, utf8.ValidString(name))
			require.LessOrEqual(t, len(name), maxTestName)
		}
	})
}
