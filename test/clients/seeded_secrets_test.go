package clients

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
	specs "github.com/drover-run/drover/spec"
	"github.com/drover-run/drover/test/harness"
)

// seededSecret is one kind of seeded secret: the form of its value, and the way in
// which a task exposes it.
type seededSecret struct {
	form   func(string) string // makes the value from a random text; nil: the text itself
	file   bool                // $SECRET is the path of a file with the value
	script string              // uses $SECRET
	// archiveSteps are steps after the script. They may use %VAR% for the name of the
	// variable.
	archiveSteps []run.ArchiveStep
	// archived reports that the task itself saves the secret in an archive, where it
	// is allowed.
	archived bool
	// silent reports that the log does not show the secret, not even masked.
	silent bool
}

// seededKinds returns the ways in which a task may leak a secret.
func seededKinds() map[string]seededSecret {
	lines := func(x string) string { return "-----BEGIN\n" + x + "\n" + x + "\n-----END\n" }
	key := func(template string) []run.ArchiveStep {
		return []run.ArchiveStep{{SaveCache: &run.SaveCache{Key: template, ArchivePaths: run.ArchivePaths{Paths: []string{"none"}}}}}
	}
	return map[string]seededSecret{
		"printed":             {script: `echo "a $SECRET b"`},
		"to stderr":           {script: `echo "$SECRET" >&2`},
		"without newline":     {script: `printf %s "$SECRET"`},
		"in pieces":           {script: `printf %s "${SECRET%????????}"; sleep 0.3; printf '%s\n' "${SECRET#"${SECRET%????????}"}"`},
		"byte by byte":        {script: `printf %s "$SECRET" | while IFS= read -r -n1 c; do printf %s "$c"; done; echo`},
		"many times":          {script: `for i in 1 2 3 4 5 6 7 8; do printf '%s%s' "$SECRET" "$SECRET"; done; echo`},
		"of lines":            {form: lines, script: `printf %s "$SECRET"`},
		"one of its lines":    {form: func(x string) string { return "first\n" + x + "\nlast\n" }, script: `printf '%s\n' "$SECRET" | sed -n 2p`},
		"with CR":             {form: func(x string) string { return x + "\r\n" + x }, script: `printf '%s\n' "$SECRET"`},
		"padded":              {form: func(x string) string { return "  " + x + " " }, script: `echo $SECRET`},
		"long":                {form: func(x string) string { return strings.Repeat(x, 1000) }, script: `printf '%s\n' "$SECRET"`},
		"in base64":           {script: `printf %s "$SECRET" | base64`},
		"in base64 in lines":  {form: func(x string) string { return strings.Repeat(x, 5) }, script: `printf %s "$SECRET" | base64`},
		"within base64":       {script: `printf 'user:%s' "$SECRET" | base64`},
		"in a URL":            {form: func(x string) string { return x + "&/ =+?" }, script: `printf %s "$SECRET" | sed -e 's/&/%26/g' -e 's/\//%2F/g' -e 's/ /%20/g' -e 's/=/%3D/g' -e 's/+/%2B/g' -e 's/?/%3F/g'`},
		"in JSON":             {form: func(x string) string { return x + "\"\\" }, script: `printf '{"a": "%s"}\n' "$(printf %s "$SECRET" | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g')"`},
		"beside bytes":        {script: `printf '\001\377%s\000\376' "$SECRET"`},
		"traced":              {script: `set -x; test -n "$SECRET"`},
		"as an output":        {script: `echo "value=$SECRET" >> $DROVER_OUTPUT`, silent: true},
		"a command not found": {script: `"/nowhere/$SECRET"`},
		"a file's name":       {script: `cat "/nowhere/$SECRET"`},
		"before a kill":       {script: `echo "$SECRET"; kill -9 $$`},
		"in a compacted log":  {script: `for i in $(seq 5000); do echo "$i $SECRET and more"; done`},

		"a file":             {file: true, script: `cat "$SECRET"`},
		"a file of lines":    {file: true, form: lines, script: `while read -r line; do echo "[$line]"; done < "$SECRET"`},
		"a file in base64":   {file: true, script: `base64 < "$SECRET"`},
		"a file saved by it": {file: true, script: `cp "$SECRET" copy; cat copy`, archived: true, archiveSteps: []run.ArchiveStep{{SaveWorkspace: &run.SaveWorkspace{}}}},
		"a file left behind": {file: true, script: `true`, silent: true},

		"a key of a cache":      {script: `true`, archiveSteps: key(`{{ env "%VAR%" }}`), silent: true},
		"a hash in a cache key": {script: `true`, archiveSteps: key(`{{ sha256 (env "%VAR%") }}`), silent: true},
		"a report of tests": {
			script: `mkdir out; printf '<testsuite><testcase classname="c" name="of %s"><failure/></testcase></testsuite>' "$SECRET" > out/a.xml; ` +
				`printf '<%s></b>' "$SECRET" > "out/$SECRET.xml"; echo "$SECRET"`,
			archived:     true,
			archiveSteps: []run.ArchiveStep{{SaveArtifacts: &run.SaveArtifacts{Name: "tests", JUnit: true, ArchivePaths: run.ArchivePaths{Paths: []string{"out"}}}}},
		},
		"an error of a transfer": {
			script: `mkdir out; echo x > "out/$SECRET"`, archived: true, silent: true,
			archiveSteps: []run.ArchiveStep{
				{SaveCache: &run.SaveCache{Key: "%VAR%", ArchivePaths: run.ArchivePaths{Root: "out"}}},
				{RestoreCache: &run.RestoreCache{Keys: []string{"%VAR%"}, To: "/proc"}}, // in which no file can be created
			},
		},
	}
}

// seededRun is a run with one task for each kind of seeded secret.
type seededRun struct {
	kinds map[string]seededSecret
	texts map[string]string // the texts to search for, by kind
	tasks map[string]string // the names of the tasks, by kind
}

// runSeeded submits the run with all kinds and waits for its end. If hide is false,
// the values are plain variables instead of secrets.
func runSeeded(t *testing.T, client *harness.Client, name string, hide bool) (seededRun, api.Run) {
	t.Helper()
	p := seededRun{kinds: seededKinds(), texts: map[string]string{}, tasks: map[string]string{}}
	spec := run.Spec{
		Name: name, Group: "/secrets/" + name, Secrets: map[string]run.Secret{}, Environment: map[string]string{}, Tasks: map[string]*run.TaskSpec{},
	}
	for i, kind := range slices.Sorted(maps.Keys(p.kinds)) {
		k := p.kinds[kind]
		p.texts[kind], p.tasks[kind] = rand.Text(), fmt.Sprintf("kind-%d", i)
		variable, value := fmt.Sprintf("SEEDED_%d", i), p.texts[kind]
		if k.form != nil {
			value = k.form(value)
		}
		prelude := "SECRET=$" + variable + "\n"
		switch {
		case !hide && k.file:
			spec.Environment[variable] = value
			prelude = "SECRET=$TMPDIR/file; printf %s \"$" + variable + "\" > $SECRET\n"
		case !hide:
			spec.Environment[variable] = value
		default:
			spec.Secrets[variable] = run.Secret(value)
			if k.file {
				spec.SecretFiles = append(spec.SecretFiles, variable)
			}
		}
		task := &run.TaskSpec{AllowFailure: true, Shell: []string{"/bin/bash"}, Steps: []run.Step{{Run: prelude + k.script}}}
		for _, step := range k.archiveSteps {
			task.Steps = append(task.Steps, run.Step{When: run.WhenAlways, ArchiveStep: expandStep(t, step, name, variable)})
		}
		spec.Tasks[p.tasks[kind]] = task
	}
	body, err := specs.Marshal(&spec)
	require.NoError(t, err)
	id := client.Submit(string(body)).ID
	return p, client.AwaitPhase(id, api.PhaseFinished)
}

// expandStep replaces %VAR% in a step by the name of the variable. A key that consists
// of %VAR% alone also gets the name of the run, since two runs share the cache.
func expandStep(t *testing.T, step run.ArchiveStep, of, variable string) run.ArchiveStep {
	t.Helper()
	text, err := json.Marshal(step)
	require.NoError(t, err)
	filled := strings.ReplaceAll(strings.ReplaceAll(string(text), `"%VAR%"`, strconv.Quote(of+"-"+variable)), "%VAR%", variable)
	var out run.ArchiveStep
	require.NoError(t, json.Unmarshal([]byte(filled), &out))
	return out
}

// TestSecrets_seeded runs one task for each kind of leak, with a secret of its
// own. No response, stored file, log or process argument may contain a secret or
// its base64. Only the records contain them, encrypted. A second run with plain
// variables shows that the scan would find the values.
func TestSecrets_seeded(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t, []string{"DROVER_LOG__LEVEL=debug"}, "--executor", "shell")
	client := harness.NewClient(t, dev.Server, dev.Token)
	require.GreaterOrEqual(t, len(seededKinds()), 20)
	scan := newSecretScan(t)
	watched, argument := watchProcesses(t), rand.Text()
	startControlProcess(t, argument)

	hidden, ran := runSeeded(t, client, "seeded", true)
	open, shown := runSeeded(t, client, "shown", false)
	watched(scan)
	refused, echoed := refusals(t, client, scan)
	for _, of := range []struct {
		seededRun
		run api.Run
	}{{hidden, ran}, {open, shown}} {
		for _, answer := range readAllPaths(t, client, map[string]string{"id": of.run.ID, "task": of.tasks["printed"], "name": "none"}) {
			scan.add("answer", answer)
		}
		for kind, task := range of.tasks {
			source := "answer of " + of.run.Name + " " + kind
			scan.add(source, client.Logs(of.run.ID, task))
			scan.add(source, of.run.Tasks[task].Reason)
			scan.add(source, of.run.Tasks[task].Outputs["value"])
			require.NotEmpty(t, of.run.Tasks[task].Status)
		}
	}
	for kind, task := range hidden.tasks {
		log := client.Logs(ran.ID, task)
		require.True(t, hidden.kinds[kind].silent || strings.Contains(log, "***"), "%s: the step got the secret, and the log masks it: %s", kind, log)
	}
	require.Equal(t, "***", ran.Tasks[hidden.tasks["as an output"]].Outputs["value"])
	scan.add("answer events", eventsUntil(t, client, 2))
	status, metrics, err := client.Do(t.Context(), http.MethodGet, "/metrics", "", "")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, metrics, "drover_tasks_ended_total")
	scan.add("answer metrics", metrics)
	awaitPacked(t, dev, ran.ID, shown.ID)
	require.NoError(t, dev.Stop())
	scan.addFiles(dev.Dir)

	for kind, text := range hidden.texts {
		found := scan.sources(text)
		if hidden.kinds[kind].archived {
			found = slices.DeleteFunc(found, func(p string) bool { return strings.Contains(p, "/archives/") })
		}
		require.Empty(t, found, kind)
	}
	for _, text := range refused {
		require.Empty(t, scan.sources(text))
	}
	requireFound(t, scan, open, shown.ID)
	require.NotEmpty(t, withPrefix(scan.sources(argument), "arguments"), "the scan reads arguments")
	require.NotEmpty(t, withPrefix(scan.sources(echoed), "answer"), "the scan reads refusals")
	require.NotEmpty(t, withPrefix(scan.sources("/secrets/seeded"), "rows of data/records.db"))
	require.NotEmpty(t, withPrefix(scan.sources(ran.ID), "rows of data/temporal.db"))
	require.NotEmpty(t, withPrefix(scan.sources("drover-sealed:1:dev:"), "rows of data/records.db"))
}

// requireFound checks that the scan finds the plain values of each kind, in all
// sources in which a secret of that kind could leak.
func requireFound(t *testing.T, scan *secretScan, open seededRun, id string) {
	t.Helper()
	for kind, text := range open.texts {
		found := scan.sources(text)
		observed := withPrefix(found, "answer of shown "+kind)
		kept := slices.Concat(withPrefix(found, "frames of data/blobs/logs/"+id), withPrefix(found, "packed data/blobs/logs/"+id), withPrefix(found, "rows of data/temporal.db"))
		if kind == "a file left behind" {
			continue // a plain variable has no file
		}
		require.NotEmpty(t, observed, "%s: the scan does not find it in responses, only in %v", kind, found)
		if kind != "as an output" && kind != "a key of a cache" { // only the records contain these
			require.NotEmpty(t, kept, "%s: the scan does not find it in stored files, only in %v", kind, found)
		}
		if kind == "a report of tests" {
			require.NotEmpty(t, withPrefix(found, "rows of data/records.db"), "the scan reads summaries")
		}
		if open.kinds[kind].archived {
			require.NotEmpty(t, withPrefix(found, "packed data/blobs/archives/"), "%s: the scan reads archives", kind)
		}
	}
	require.NotEmpty(t, withPrefix(scan.sources(open.texts["in a compacted log"]), "packed data/blobs/logs/"), "the scan decompresses compacted logs")
}

// awaitPacked waits until each of the runs has a compacted log.
func awaitPacked(t *testing.T, dev *harness.Dev, ids ...string) {
	t.Helper()
	for _, id := range ids {
		testenv.Await(t, func() (bool, string) {
			packed, err := filepath.Glob(filepath.Join(dev.Dir, "data/blobs/logs", id, "*/*/packed.*"))
			return err == nil && len(packed) > 0, "no log of " + id + " is compacted"
		})
	}
}

// refusals makes invalid calls, each with a secret in the invalid place. It
// returns the secrets, and a text that is no secret and that a problem shows.
func refusals(t *testing.T, client *harness.Client, scan *secretScan) (secrets []string, echoed string) {
	t.Helper()
	call := func(method, path, media, body string) {
		t.Helper()
		status, answer, err := client.Do(t.Context(), method, "/api/v1"+path, media, body)
		require.NoError(t, err)
		require.GreaterOrEqual(t, status, 400, body)
		require.Less(t, status, 500, answer)
		scan.add("answer "+strconv.Itoa(status), answer)
	}
	const yaml, jsonText = "application/yaml", "application/json"
	spec := func(secrets string) string {
		return "{name: a, group: /a/b, secrets: " + secrets + ", tasks: {a: {steps: [{run: 'true'}]}}}"
	}
	for _, form := range []struct{ method, path, media, body string }{
		{http.MethodPost, "/runs", yaml, spec("%s")},
		{http.MethodPost, "/runs", yaml, spec("[%s]")},
		{http.MethodPost, "/runs", yaml, spec("{T: [%s]}")},
		{http.MethodPost, "/runs", yaml, spec("{T: {x: %s}}")},
		{http.MethodPost, "/runs", yaml, spec("{T: a, T: %s}")},
		{http.MethodPost, "/runs", yaml, spec("{DROVER_T: %s}")},
		{http.MethodPost, "/runs", yaml, spec(`{T: "%s\0"}`)},
		{http.MethodPost, "/runs", yaml, spec("{T: '%s" + strings.Repeat("x", run.MaxVariableBytes) + "'}")},
		{http.MethodPost, "/runs", yaml, spec("{T: '%s")},
		{http.MethodPost, "/runs", yaml, spec("{T: *%s}")},
		{http.MethodPost, "/runs", jsonText, `{"secrets": {"T": "%s`},
		{http.MethodPost, "/runs", jsonText, `{"secrets": {"T": "%s" x`},
		{http.MethodPost, "/runs/none/restart", jsonText, `{"from": "start", "secrets": {"T": "%s"}}`},
		{http.MethodPost, "/runs/none/restart", jsonText, `{"from": "start", "secrets": {"T": ["%s"]}}`},
		{http.MethodPost, "/runs/none/restart", jsonText, `{"from": "start", "secrets": "%s"}`},
		{http.MethodPut, "/schedules/x", yaml, "{spec: " + spec("{T: [%s]}") + ", cron: ['@yearly']}"},
		{http.MethodPut, "/schedules/x", yaml, "{spec: " + spec("{T: %s}") + ", cron: ['never']}"},
		{http.MethodPut, "/webhooks/x", yaml, "{url: 'nowhere', secret: %s}"},
		{http.MethodPut, "/webhooks/x", yaml, "{url: 'http://127.0.0.1:1', secret: [%s]}"},
	} {
		secrets = append(secrets, rand.Text())
		call(form.method, form.path, form.media, strings.ReplaceAll(form.body, "%s", secrets[len(secrets)-1]))
	}
	echoed = rand.Text()
	call(http.MethodPost, "/runs", yaml, "{name: a, group: /a/b, admission: "+echoed+", tasks: {}}")
	return secrets, echoed
}

// programPrefix is the prefix of the names of Drover's programs. watchProcesses reads
// their arguments and environments, and not those of tasks.
const programPrefix = "drover"

// startControlProcess starts a process that has a name like Drover's own and an argument that
// the scan must find.
func startControlProcess(t *testing.T, argument string) {
	t.Helper()
	shell, err := exec.LookPath("bash")
	require.NoError(t, err)
	content, err := os.ReadFile(shell)
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), programPrefix+"-control")
	require.NoError(t, os.WriteFile(program, content, 0o700))
	cmd := exec.CommandContext(t.Context(), program, "-c", "read", "control", argument)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // read fails at the end of its input
	})
}

// watchProcesses samples the arguments and environments of Drover's processes
// until the returned function is called, which adds them to a scan.
func watchProcesses(t *testing.T) (observed func(*secretScan)) {
	t.Helper()
	seen := map[string]bool{}
	stop := testenv.Watch(t, 10*time.Millisecond, func() {
		programs, _ := filepath.Glob("/proc/[0-9]*/exe")
		for _, link := range programs {
			program, err := os.Readlink(link)
			if err != nil || !strings.HasPrefix(filepath.Base(program), programPrefix) {
				continue // the process has ended, or belongs to another user
			}
			for _, of := range []string{"cmdline", "environ"} {
				text, _ := os.ReadFile(filepath.Join(filepath.Dir(link), of)) // the process may have ended
				seen[string(text)] = true
			}
		}
	})
	return func(scan *secretScan) {
		t.Helper()
		stop()
		require.NotEmpty(t, slices.Collect(func(yield func(string) bool) {
			for text := range seen {
				if strings.Contains(text, "drover-shim\x00run\x00") && !yield(text) {
					return
				}
			}
		}), "no running shim was sampled")
		for text := range seen {
			scan.add("arguments", text)
		}
	}
}
