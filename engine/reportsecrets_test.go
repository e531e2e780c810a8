package engine_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/engine"
	"github.com/drover-run/drover/engine/archives"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// fakeProvider has one secret, unless it is unavailable or lost the secret.
type fakeProvider struct {
	engine.Secrets // nil: pools have no credentials
	secret         string
	err            error
}

func (v *fakeProvider) Check(string, run.SecretRef) error { return nil }

func (v *fakeProvider) Resolve(_ context.Context, _ string, refs map[string]run.SecretRef) (map[string]run.Secret, error) {
	out := make(map[string]run.Secret)
	for name := range refs {
		out[name] = run.Secret(v.secret)
	}
	return out, v.err
}

// The texts of reports show no secret of the run, and none of a provider.
func TestReports_hide_secrets(t *testing.T) {
	t.Parallel()
	own, kept, pull := "own-"+rand.Text(), "kept-"+rand.Text(), "pull-"+rand.Text()
	d := newArchiveBench(t, archives.Options{})
	v := &fakeProvider{secret: kept}
	d.deps.Secrets = v
	d.Engine = engine.New(d.deps)
	of := &run.Spec{
		Name: "n", Group: "/a/b", Secrets: map[string]run.Secret{"OWN": run.Secret(own), run.DockerAuthConfig: run.Secret(`{"auths": {"ghcr.io": {"auth": "` + base64.StdEncoding.EncodeToString([]byte("u:"+pull)) + `"}}}`)},
		SecretsFrom: map[string]run.SecretRef{"KEPT": {Provider: "vault", Name: "kept"}},
		Tasks:       map[string]*run.TaskSpec{"a": {Steps: []run.Step{{ArchiveStep: run.ArchiveStep{SaveArtifacts: &run.SaveArtifacts{Name: "report", JUnit: true}}}}}},
	}
	begin := func() run.Key {
		x, faults := spec.Expand(of, func(string, *run.TaskSpec) (string, error) { return "shell", nil })
		require.Empty(t, faults)
		r, err := d.store.CreateRun(t.Context(), records.NewRun{Spec: of, Plan: x.Plan, Tasks: x.Tasks})
		require.NoError(t, err)
		_, err = d.store.Begin(t.Context(), r.ID)
		require.NoError(t, err)
		_, _, err = d.store.Apply(t.Context(), r.ID, records.Changes{Tasks: []run.TaskChange{{Attempt: 1, Dispatch: 1, Status: run.StatusQueued}}})
		require.NoError(t, err)
		key := run.Key{Run: r.ID, Attempt: 1, Dispatch: 1}
		_, err = d.Claim(t.Context(), run.ClaimRequest{Key: key, Executor: executorID, JournalID: "j1", SpecVersion: run.NewestSpecVersion})
		require.NoError(t, err)
		return key
	}
	failed := func(class, name string) string {
		return `<testsuite><testcase classname="` + class + `" name="` + name + `"><failure message="` + own + `"/></testcase></testsuite>`
	}
	content := packFiles(t, map[string]string{
		"1.xml":        failed("with "+own, "and "+kept),
		"2.xml":        failed("", base64.StdEncoding.EncodeToString([]byte(own))),
		"3.xml":        failed("", strings.Repeat("x", 490)+own), // the text is cut
		"3a.xml":       failed("", pull),
		"4.xml":        "<" + own + "></b>",
		own + "-5.xml": "<" + kept + "/>",
	})
	save := func(key run.Key) (*run.TestSummary, error) {
		up, err := d.beginSave(key, 0, "")
		require.NoError(t, err)
		if _, err := d.SaveArchive(t.Context(), up, bytes.NewReader(content)); err != nil {
			return nil, err
		}
		list, err := d.Artifacts(t.Context(), key.Run)
		require.NoError(t, err)
		return list[0].Tests, nil
	}
	summary, err := save(begin())
	require.NoError(t, err)
	require.Equal(t, []string{"with ***.and ***", "***", strings.Repeat("x", 490) + "***", "***"}, summary.FailedNames)
	require.Equal(t, []string{
		"4.xml: XML syntax error on line 1: element <***> closed by </b>",
		"***-5.xml: it has no test suite",
	}, summary.Faults)

	away, gone := begin(), begin()
	v.err = run.Errorf(run.CodeUnavailable, "the vault is sealed")
	_, err = save(away)
	require.Equal(t, run.CodeUnavailable, run.CodeOf(err), "it may be tried again")
	v.err = run.Errorf(run.CodeNotFound, "there is no secret kept")
	summary, err = save(gone)
	require.NoError(t, err)
	require.Equal(t, run.TestSummary{Faults: []string{
		"the reports were not read, because the secrets in them cannot be hidden: there is no secret kept",
	}}, *summary)
}
