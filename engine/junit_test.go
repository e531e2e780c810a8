package engine_test

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/engine/archives"
	"github.com/drover-run/drover/run"
)

// Reports as common tools write them, shortened.
const (
	surefireReport = `<?xml version="1.0" encoding="UTF-8"?>
<testsuite xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation="surefire-test-report.xsd" version="3.0" name="org.example.AppTest" time="0.05" tests="4" errors="1" skipped="1" failures="1">
  <properties><property name="java.version" value="21"/><property name="name" value="x"/></properties>
  <testcase name="adds" classname="org.example.AppTest" time="0.01"/>
  <testcase name="divides" classname="org.example.AppTest" time="0.01">
    <failure message="expected:&lt;2&gt; but was:&lt;3&gt;" type="org.opentest4j.AssertionFailedError"><![CDATA[org.opentest4j.AssertionFailedError: expected: <2> but was: <3>
	at org.example.AppTest.divides(AppTest.java:12)]]></failure>
    <system-out><![CDATA[<testcase name="no test"/>]]></system-out>
  </testcase>
  <testcase name="opens" classname="org.example.AppTest" time="0">
    <error type="java.io.IOException">java.io.IOException</error>
    <rerunFailure message="again" type="x"><stackTrace>trace</stackTrace></rerunFailure>
  </testcase>
  <testcase name="later" classname="org.example.AppTest"><skipped message="not yet"/></testcase>
</testsuite>`
	gotestsumReport = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="3" failures="2" errors="0" time="1.2">
	<testsuite tests="3" failures="1" time="0.4" name="example.com/a" timestamp="2026-01-01T00:00:00Z">
		<properties><property name="go.version" value="go1.26"></property></properties>
		<testcase classname="example.com/a" name="TestGood" time="0.1"></testcase>
		<testcase classname="example.com/a" name="TestBad/sub_&lt;1&gt;" time="0.2"><failure message="Failed" type="">=== RUN   TestBad&#xA;    a_test.go:9: no</failure></testcase>
		<testcase classname="example.com/a" name="TestSkip" time="0"><skipped message="=== RUN   TestSkip"></skipped></testcase>
	</testsuite>
	<testsuite tests="0" failures="1" time="0" name="example.com/b">
		<testcase classname="" name="TestMain" time="0"><failure message="Failed" type="">panic</failure></testcase>
	</testsuite>
</testsuites>`
	pytestReport = `<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest" errors="1" failures="1" skipped="1" tests="4" time="0.1" hostname="h"><testcase classname="tests.test_a" name="test_ok[ä-1]" time="0.001"><properties><property name="k" value="v"/></properties></testcase><testcase classname="tests.test_a" name="test_bad[a&amp;b]" time="0.001"><failure message="assert 1 == 2">def test_bad(): ...</failure></testcase><testcase classname="tests.test_a" name="test_fixture" time="0.001"><error message="failed on setup with &quot;x&quot;">E</error></testcase><testcase classname="tests.test_a" name="test_xfail" time="0"><skipped type="pytest.xfail" message="known"/></testcase></testsuite></testsuites>`
	nestedReport = `<testsuites><testsuite name="outer">
		<testsuite name="inner"><testcase classname="i" name="one"><failure/></testcase></testsuite>
		<testcase classname="o" name="two"><error/></testcase>
		<testsuite name="other"><testsuite name="deep"><testcase name="three"><failure/></testcase></testsuite><testcase name="four"><skipped/></testcase></testsuite>
		<unknown><testcase name="in no suite"><failure/></testcase><testsuite name="x"><testcase name="y"/></testsuite></unknown>
	</testsuite></testsuites>`
)

// saveReports saves files as an artifact whose reports are read, and returns
// the summary.
func saveReports(t *testing.T, files map[string]string) *run.TestSummary {
	t.Helper()
	d := newArchiveBench(t, archives.Options{})
	key, _ := d.begin(t, "/a/b", false)
	d.save(t, key, stepArtifact, "", packFiles(t, files))
	list, err := d.Artifacts(t.Context(), key.Run)
	require.NoError(t, err)
	require.Len(t, list, 1)
	return list[0].Tests
}

func TestReports(t *testing.T) {
	t.Parallel()
	suite := func(cases string) string { return "<testsuite>" + cases + "</testsuite>" }
	many := strings.Repeat(`<testcase name="n"><failure/></testcase>`, run.MaxFailedTests+50)
	for name, tt := range map[string]struct {
		report string
		want   run.TestSummary
		fault  string // a part of the reason, "" for none
	}{
		"surefire":  {surefireReport, run.TestSummary{Tests: 4, Failed: 2, Skipped: 1, FailedNames: []string{"org.example.AppTest.divides", "org.example.AppTest.opens"}}, ""},
		"gotestsum": {gotestsumReport, run.TestSummary{Tests: 4, Failed: 2, Skipped: 1, FailedNames: []string{"example.com/a.TestBad/sub_<1>", "TestMain"}}, ""},
		"pytest":    {pytestReport, run.TestSummary{Tests: 4, Failed: 2, Skipped: 1, FailedNames: []string{"tests.test_a.test_bad[a&b]", "tests.test_a.test_fixture"}}, ""},
		"nested, own tests first": {
			nestedReport, run.TestSummary{Tests: 4, Failed: 3, Skipped: 1, FailedNames: []string{"o.two", "i.one", "three"}}, "",
		},
		"several roots":          {suite(`<testcase name="a"/>`) + "\n" + suite(`<testcase name="b"><error/></testcase>`), run.TestSummary{Tests: 2, Failed: 1, FailedNames: []string{"b"}}, ""},
		"suites in other tags":   {"<a><b>" + suite(`<testcase/>`) + "</b></a>", run.TestSummary{Tests: 1}, ""},
		"the last outcome":       {suite(`<testcase name="a"><failure/><skipped/></testcase><testcase name="b"><skipped/><error/></testcase>`), run.TestSummary{Tests: 2, Failed: 1, Skipped: 1, FailedNames: []string{"b"}}, ""},
		"outcomes elsewhere":     {suite(`<failure/><testcase name="a"><x><failure/></x></testcase>`), run.TestSummary{Tests: 1}, ""},
		"a namespace":            {`<j:testsuite xmlns:j="urn:j"><j:testcase j:name="a"><j:failure/></j:testcase></j:testsuite>`, run.TestSummary{Tests: 1, Failed: 1, FailedNames: []string{"a"}}, ""},
		"no test":                {suite(""), run.TestSummary{}, ""},
		"a name twice":           {suite(`<testcase name="a" x:name="b" name="c"><failure/></testcase>`), run.TestSummary{Tests: 1, Failed: 1, FailedNames: []string{"c"}}, ""},
		"many failures":          {suite(many), run.TestSummary{Tests: 150, Failed: 150, FailedNames: slicesOf("n", run.MaxFailedTests)}, ""},
		"a long name":            {suite(`<testcase name="` + strings.Repeat("ä", 300) + `"><failure/></testcase>`), run.TestSummary{Tests: 1, Failed: 1, FailedNames: []string{strings.Repeat("ä", 248) + "…"}}, ""},
		"a byte order mark":      {"\ufeff" + suite(`<testcase name="a"/>`), run.TestSummary{Tests: 1}, ""},
		"comments and types":     {"<!DOCTYPE x [<!ELEMENT a (b)>]><!-- <testcase/> -->" + suite(`<!-- ] --><testcase name="a"/><?pi x?>`), run.TestSummary{Tests: 1}, ""},
		"much output":            {suite(`<testcase name="a"><system-out>` + strings.Repeat("output <![CDATA[<b>]]> &lt; ", 100_000) + `</system-out></testcase>`), run.TestSummary{Tests: 1}, ""},
		"a long message":         {suite(`<testcase name="a"><failure message="` + strings.Repeat("x", 900_000) + `"/></testcase>`), run.TestSummary{Tests: 1, Failed: 1, FailedNames: []string{"a"}}, ""},
		"no suite":               {"<html/>", run.TestSummary{}, "it has no test suite"},
		"nothing":                {" ", run.TestSummary{}, "it has no test suite"},
		"no XML":                 {"name: a", run.TestSummary{}, "it has no test suite"},
		"broken":                 {"<testsuite><testcase></testsuite>", run.TestSummary{}, "XML syntax error on line 1"},
		"cut":                    {"<testsuite><testcase name=\"a\"/>", run.TestSummary{}, "XML syntax error on line 1"},
		"another encoding":       {`<?xml version="1.0" encoding="ISO-8859-1"?>` + suite(""), run.TestSummary{}, "ISO-8859-1"},
		"an entity of its own":   {`<!DOCTYPE a [<!ENTITY e "x">]>` + suite(`<testcase name="&e;"/>`), run.TestSummary{}, "invalid character entity &e;"},
		"a value without quotes": {suite("<testcase name=a/>"), run.TestSummary{}, "XML syntax error on line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := saveReports(t, map[string]string{"report.xml": tt.report})
			if tt.fault != "" {
				require.Len(t, got.Faults, 1)
				require.Contains(t, got.Faults[0], "report.xml: ")
				require.Contains(t, got.Faults[0], tt.fault)
				got.Faults = nil
			}
			require.Equal(t, tt.want, *got)
		})
	}
}

func slicesOf(s string, n int) []string { return strings.Fields(strings.Repeat(s+" ", n)) }

// The resources that a report takes of the gateway are bounded, and the
// artifact is kept.
func TestReports_bounds(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	const most = 128 << 20
	attributes := new(strings.Builder)
	for range 150_000 {
		attributes.WriteString(` a=""`)
	}
	for name, tt := range map[string]struct{ report, fault string }{
		"depth":           {strings.Repeat("<a>", 700_000), "nested deeper than 100"},
		"text in depth":   {strings.Repeat("<a>", 90) + strings.Repeat("x", 4<<20) + strings.Repeat("</a>", 90), "it has no test suite"},
		"suites in each":  {strings.Repeat("<testsuite>", 100_000), "nested deeper than 100"},
		"tests":           {"<testsuite>" + strings.Repeat("<testcase/>", 500_001) + "</testsuite>", "more than 500000 suites and tests"},
		"a tag":           {`<testsuite name="` + strings.Repeat("x", 2<<20) + `"/>`, "a tag of more than 1048576 bytes"},
		"an end tag":      {"<testsuite></" + strings.Repeat("x", 2<<20), "a tag of more than 1048576 bytes"},
		"attributes":      {"<testsuite" + attributes.String() + "/>", "more than 1000 attributes"},
		"bytes":           {"<testsuite>" + strings.Repeat(" ", 16<<20) + "</testsuite>", "more than 16777216 bytes"},
		"one long text":   {"<testsuite>" + strings.Repeat("x", 8<<20) + "</testsuite", "unexpected EOF"},
		"a long comment":  {"<!--" + strings.Repeat("x", 8<<20), "unexpected EOF"},
		"a long document": {"<!DOCTYPE " + strings.Repeat("<", 1<<20), "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // likewise
			var before, after runtime.MemStats
			d := newArchiveBench(t, archives.Options{})
			key, _ := d.begin(t, "/a/b", false)
			content := packFiles(t, map[string]string{"a/report.xml": tt.report, "b/good.xml": report})
			up, err := d.beginSave(key, stepArtifact, "")
			require.NoError(t, err)
			runtime.ReadMemStats(&before)
			_, err = d.SaveArchive(t.Context(), up, bytes.NewReader(content))
			runtime.ReadMemStats(&after)
			require.NoError(t, err, "the artifact is kept, so that no executor tries again")
			list, err := d.Artifacts(t.Context(), key.Run)
			require.NoError(t, err)
			require.NotEmpty(t, list[0].Tests.Faults)
			require.Contains(t, list[0].Tests.Faults[0], "a/report.xml: ")
			require.Contains(t, list[0].Tests.Faults[0], tt.fault)
			if name != "tests" { // the root counts as one more
				require.Len(t, list[0].Tests.Faults, 1)
				require.Equal(t, 4, list[0].Tests.Tests, "of the other report")
			}
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(most))
		})
	}
}
