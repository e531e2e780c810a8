package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The events are those of go test -json, without times and most output.
func TestResults_verdict(t *testing.T) {
	t.Parallel()
	start, pass, fail := `{"Action":"start","Package":"m/a"}`, `{"Action":"pass","Package":"m/a"}`, `{"Action":"fail","Package":"m/a"}`
	test := func(name, action string) string {
		return `{"Action":"run","Package":"m/a","Test":"` + name + `"}` + "\n" + `{"Action":"` + action + `","Package":"m/a","Test":"` + name + `"}`
	}
	for name, tt := range map[string]struct {
		events []string
		want   []string
		green  bool
	}{
		"passed": {
			[]string{start, test("TestX", "pass"), test("TestY", "skip"), pass},
			[]string{"tests: 1 passed, 0 failed, 1 skipped"},
			true,
		},
		"failed, and failed again": {
			[]string{start, test("TestX", "fail"), fail, start, test("TestX", "fail"), fail, start, test("TestX", "fail"), fail},
			[]string{"FAILED m/a.TestX: 3 of 3 times; repeat it with: go test -count=1 -run '^TestX$' m/a", "tests: 0 passed, 1 failed, 0 skipped"},
			false,
		},
		"passed the second time": {
			[]string{start, test("TestX", "fail"), test("TestY", "pass"), fail, start, test("TestX", "pass"), pass},
			[]string{"FLAKY m/a.TestX: failed 1 of 2 times", "tests: 2 passed, 0 failed, 0 skipped"},
			true,
		},
		"skipped the second time": {
			[]string{start, test("TestX", "fail"), fail, start, test("TestX", "skip"), pass},
			[]string{"FAILED m/a.TestX: 1 of 2 times; repeat it with: go test -count=1 -run '^TestX$' m/a", "tests: 0 passed, 1 failed, 0 skipped"},
			false,
		},
		"a failed subtest": {
			[]string{start, test("TestX/a", "fail"), test("TestX", "fail"), fail, start, test("TestX/a", "pass"), test("TestX", "pass"), pass},
			[]string{"FLAKY m/a.TestX: failed 1 of 2 times", "tests: 1 passed, 0 failed, 0 skipped"},
			true,
		},
		"a leaked goroutine, which another run hides": {
			[]string{
				start, test("TestX", "pass"), `{"Action":"output","Package":"m/a","Output":"PASS\n"}`,
				`{"Action":"output","Package":"m/a","Output":"goleak: Errors on successful test run: found unexpected goroutines:\n"}`, fail,
				start, `{"Action":"output","Package":"m/a","Output":"testing: warning: no tests to run\n"}`, pass,
			},
			[]string{
				"FAILED m/a: failed without a failed test", "    PASS", "    goleak: Errors on successful test run: found unexpected goroutines:",
				"tests: 1 passed, 1 failed, 0 skipped",
			},
			false,
		},
		"a panic, which another run hides": {
			[]string{
				start, `{"Action":"output","Package":"m/a","Test":"TestX","Output":"panic: test timed out after 1s\n"}`, test("TestX", "fail"), fail,
				start, test("TestX", "pass"), pass,
			},
			[]string{"FAILED m/a: panicked, or ran out of time", "FLAKY m/a.TestX: failed 1 of 2 times", "tests: 1 passed, 1 failed, 0 skipped"},
			false,
		},
		"a process that ended in a test": {
			[]string{
				start, `{"Action":"run","Package":"m/a","Test":"TestY"}`, `{"Action":"output","Package":"m/a","Test":"TestY","Output":"x\n"}`, test("TestX", "fail"), fail,
				start, test("TestX", "pass"), pass,
			},
			[]string{"FAILED m/a: ended in the middle of TestY", "FLAKY m/a.TestX: failed 1 of 2 times", "tests: 1 passed, 1 failed, 0 skipped"},
			false,
		},
		"a text in the output of a passed package": {
			[]string{start, `{"Action":"output","Package":"m/a","Test":"TestX","Output":"panic: expected\n"}`, test("TestX", "pass"), pass},
			[]string{"tests: 1 passed, 0 failed, 0 skipped"},
			true,
		},
		"a build error": {
			[]string{
				`{"ImportPath":"m/a","Action":"build-output","Output":"a.go:1: syntax error\n"}`, `{"ImportPath":"m/a","Action":"build-fail"}`,
				start, `{"Action":"fail","Package":"m/a","FailedBuild":"m/a"}`,
			},
			[]string{"FAILED m/a: does not build", "tests: 0 passed, 1 failed, 0 skipped"},
			false,
		},
		"an end in the middle": {
			[]string{start, test("TestX", "pass")},
			[]string{"FAILED m/a: did not end", "tests: 1 passed, 1 failed, 0 skipped"},
			false,
		},
		"too many flaky tests": {
			[]string{start, test("TestX", "fail"), test("TestY", "fail"), fail, start, test("TestX", "pass"), pass, start, test("TestY", "pass"), pass},
			[]string{
				"FAILED: 2 flaky tests; the limit is 1", "FLAKY m/a.TestX: failed 1 of 2 times", "FLAKY m/a.TestY: failed 1 of 2 times",
				"tests: 2 passed, 1 failed, 0 skipped",
			},
			false,
		},
		"no test": {
			[]string{start, `{"Action":"skip","Package":"m/a"}`},
			[]string{"FAILED: no test ran", "tests: 0 passed, 1 failed, 0 skipped"},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r results
			require.NoError(t, r.read(strings.NewReader(strings.Join(tt.events, "\n"))))
			v := r.verdict(1)
			require.Equal(t, strings.Join(tt.want, "\n")+"\n", v.String())
			require.Equal(t, tt.green, v.green())
		})
	}
}

func TestResults_withoutTests(t *testing.T) {
	t.Parallel()
	var r results
	require.NoError(t, r.read(strings.NewReader(`{"Action":"start","Package":"m/a"}
{"Action":"pass","Package":"m/a","Test":"TestX"}
{"Action":"pass","Package":"m/a"}
{"Action":"start","Package":"m/b"}
{"Action":"skip","Package":"m/b","Test":"TestY"}
{"Action":"pass","Package":"m/b"}
{"Action":"start","Package":"m/c"}
{"Action":"pass","Package":"m/c"}
`)))
	require.Equal(t, []string{"FAILED m/b: no test ran", "FAILED m/c: no test ran"}, r.withoutTests())
}

// TestVerdict_writeFlaky keeps what a flaky test printed when it failed, and nothing else.
func TestVerdict_writeFlaky(t *testing.T) {
	t.Parallel()
	var r results
	require.NoError(t, r.read(strings.NewReader(`{"Action":"start","Package":"m/a"}
{"Action":"run","Package":"m/a","Test":"TestX"}
{"Action":"run","Package":"m/a","Test":"TestY"}
{"Action":"output","Package":"m/a","Test":"TestX/sub","Output":"why it failed\n"}
{"Action":"output","Package":"m/a","Test":"TestY","Output":"another test\n"}
{"Action":"fail","Package":"m/a","Test":"TestX/sub"}
{"Action":"fail","Package":"m/a","Test":"TestX"}
{"Action":"pass","Package":"m/a","Test":"TestY"}
{"Action":"fail","Package":"m/a"}
{"Action":"start","Package":"m/a"}
{"Action":"run","Package":"m/a","Test":"TestX"}
{"Action":"output","Package":"m/a","Test":"TestX","Output":"how it passed\n"}
{"Action":"pass","Package":"m/a","Test":"TestX"}
{"Action":"pass","Package":"m/a"}
`)))
	dir := filepath.Join(t.TempDir(), "flaky")
	require.NoError(t, r.verdict(3).writeFlaky(dir))
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1)
	log, err := os.ReadFile(filepath.Join(dir, "m_a.TestX.log"))
	require.NoError(t, err)
	require.Equal(t, "FLAKY m/a.TestX: failed 1 of 2 times\nwhy it failed\n", string(log))
}

func TestResults_read_broken(t *testing.T) {
	t.Parallel()
	var r results
	require.ErrorContains(t, r.read(strings.NewReader("{\"Action\":\"start\",\"Package\":\"m/a\"}\n{\"Act")), "decode an event")
}
