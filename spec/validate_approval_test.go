package spec_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

func TestValidate_approval(t *testing.T) {
	t.Parallel()
	file := func(approval string) []byte {
		return []byte("name: n\ngroup: /a/b\ntasks:\n  a:\n    approval: " + approval + "\n    steps: [{run: 'true'}]\n")
	}
	for text, want := range map[string]run.Approval{
		"true":           {Approvers: 1},
		"{}":             {Approvers: 1},
		"false":          {},
		"{approvers: 2}": {Approvers: 2},
		"{timeout: 1h}":  {Approvers: 1, Timeout: run.Duration(time.Hour)},
		"{from: [ann]}":  {Approvers: 1, From: []string{"ann"}},
		"{from: [a, b], approvers: 2, timeout: 0s}": {Approvers: 2, From: []string{"a", "b"}},
	} {
		s, err := spec.Validate(file(text), spec.FormatYAML)
		require.NoError(t, err, text)
		require.Equal(t, want, s.Tasks["a"].Approval, text)
	}
	for text, path := range map[string]string{
		"{approvers: 0}":                "tasks.a.approval.approvers",
		"{approvers: 2, from: [ann]}":   "tasks.a.approval.from",
		"{from: []}":                    "tasks.a.approval.from",
		"{from: [ann, ann]}":            "tasks.a.approval.from[1]",
		"{from: ['']}":                  "tasks.a.approval.from[0]",
		"{timeout: -1s}":                "tasks.a.approval.timeout",
		"{timeout: soon, approvers: 1}": "tasks.a.approval.timeout",
	} {
		_, err := spec.Validate(file(text), spec.FormatYAML)
		refused := new(run.Error)
		require.ErrorAs(t, err, &refused, text)
		require.Equal(t, path, refused.Faults[0].Path, text)
		require.Equal(t, 5, refused.Faults[0].Line, text)
	}
}

func TestValidate_hidden_secret(t *testing.T) {
	t.Parallel()
	_, err := spec.Validate([]byte("name: n\ngroup: /a/b\nsecrets: {T: '[redacted]'}\ntasks: {a: {steps: [{run: 'true'}]}}\n"), spec.FormatYAML)
	refused := new(run.Error)
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "secrets.T", refused.Faults[0].Path)
}

func TestWriteYAML(t *testing.T) {
	t.Parallel()
	got, err := spec.WriteYAML([]byte(`{"z": "true", "a": ["1", 1, null], "run": "one\ntwo\n", "t": "a: b\t", "u": "# no"}`))
	require.NoError(t, err)
	require.Equal(t, "z: \"true\"\na:\n  - \"1\"\n  - 1\n  - null\nrun: |\n  one\n  two\nt: \"a: b\\t\"\nu: '# no'\n", string(got))
}
