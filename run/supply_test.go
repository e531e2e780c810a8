package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
)

// TestDefinition_Supply has secrets of providers count as those of the run.
func TestDefinition_Supply(t *testing.T) {
	t.Parallel()
	header := &run.Spec{
		Environment: map[string]string{"A": "plain"}, Secrets: map[string]run.Secret{"S": "inlined"},
		SecretsFrom: map[string]run.SecretRef{"A": {Provider: "p", Name: "a"}, "B": {Provider: "p", Name: "b"}},
		Registries:  map[string]run.Registry{"own": {Username: "u", PasswordSecret: "S"}, "other": {Username: "v", PasswordSecret: "B"}},
	}
	d := run.Define(header, &run.TaskSpec{Steps: []run.Step{{Run: "true"}}}, run.ExpandedTask{Name: "t"}, run.Key{Run: "r", Attempt: 1, Dispatch: 1}, 1)
	require.Equal(t, []string{"inlined"}, d.Secrets)
	d.Supply(map[string]run.Secret{"A": "over the plain one", "B": "line one\nline two"})
	require.Equal(t, "over the plain one", d.Environment["A"])
	require.Equal(t, "line one\nline two", d.Environment["B"])
	require.Equal(t, []string{"over the plain one", "line one\nline two", "line one", "line two", "inlined"}, d.Secrets)
	require.Equal(t, map[string]run.Auth{"own": {Username: "u", Password: "inlined"}, "other": {Username: "v", Password: "line one\nline two"}}, d.Auth)
}
