package test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
	specs "github.com/drover-run/drover/spec"
	"github.com/drover-run/drover/test/harness"
)

// secretsAreToldNowhere plants a secret wherever a client may give one, uses
// it, and then asks for everything that can be asked, and reads all that is
// kept: the records alone have it, sealed.
func secretsAreToldNowhere(t *testing.T, _ *harness.Dev) {
	dev := harness.StartDev(t, []string{"DROVER_LOG__LEVEL=debug"}, "--executor", "shell")
	client := harness.NewClient(t, dev.Server, dev.Token)
	secret := func() string { return "planted-" + rand.Text() }
	ofRun, ofRestart, ofHook, ofSchedule, ofWrong := secret(), secret(), secret(), secret(), secret()
	planted := []string{ofRun, ofRestart, ofHook, ofSchedule, ofWrong}
	var told []string // all that was answered
	call := func(method, path, body string, want int) string {
		t.Helper()
		status, answer, err := client.Do(t.Context(), method, "/api/v1"+path, "application/yaml", body)
		require.NoError(t, err)
		require.Equal(t, want, status, answer)
		told = append(told, answer)
		return answer
	}
	spec := func(secret string) string {
		// It is printed, put out, and the name of what fails.
		return fmt.Sprintf(`{name: secrets, group: /behaviours/secrets, secrets: {TOKEN: %s}, tasks: {
  use: {steps: [{run: 'echo "[$TOKEN]"'}, {run: 'echo "$TOKEN" >&2; echo "told=$TOKEN" >> $DROVER_OUTPUT'}]},
  fail: {steps: [{name: fails, run: '"/nowhere/$TOKEN"', when: always}]},
  approve: {approval: true, steps: [{run: 'true'}]}}}`, secret)
	}
	receiver := newHookReceiver(t)
	receiver.answers(http.StatusTeapot) // so that an error is told
	call(http.MethodPut, "/webhooks/planted", fmt.Sprintf("{url: 'http://%s', secret: %s}", receiver.address, ofHook), http.StatusCreated)
	call(http.MethodPut, "/schedules/planted", fmt.Sprintf("{spec: %s, cron: ['@yearly']}", spec(ofSchedule)), http.StatusCreated)
	call(http.MethodPost, "/schedules/planted/trigger", "", http.StatusOK)
	call(http.MethodPost, "/runs", strings.Replace(spec(ofWrong), "steps:", "stepps:", 1), http.StatusUnprocessableEntity)
	id := client.Submit(spec(ofRun)).ID
	finish := func(id string) {
		client.Await(id, patience, func(r api.Run) bool { return r.Tasks["approve"].Status == "waiting_approval" })
		call(http.MethodPost, "/runs/"+id+"/tasks/approve/approve", "{}", http.StatusOK)
		client.AwaitPhase(id, api.PhaseFinished, patience)
	}
	finish(id)
	call(http.MethodPost, "/runs/"+id+"/restart", "{from: start, secrets: {TOKEN: "+ofRestart+"}}", http.StatusCreated)
	fired := newSchedules(t, dev).await("planted", func(s api.Schedule) bool { return len(s.Recent) == 1 && s.Recent[0].Run != "" }).Recent[0].Run
	finish(client.Get(id).RestartedAs[0])
	finish(fired)

	for _, id := range []string{id, client.Get(id).RestartedAs[0], fired} {
		require.Equal(t, "[***]\n***\n", client.Logs(id, "use"), "the secret reached the step, and is masked")
		told = append(told, everything(t, client, map[string]string{"id": id, "task": "use", "name": "planted"})...)
		told = append(told, client.Logs(id, "fail"))
	}
	told = append(told, eventsUntil(t, client, 3))
	testenv.Await(t, patience, func() (bool, string) {
		w := call(http.MethodGet, "/webhooks/planted", "", http.StatusOK)
		return strings.Contains(w, "418"), w
	})
	require.NoError(t, dev.Stop())
	for _, secret := range planted {
		for _, answer := range told {
			require.NotContains(t, answer, secret)
		}
		require.Empty(t, filesWith(t, dev.Dir, secret))
	}
	require.NotEmpty(t, filesWith(t, dev.Dir, "/behaviours/secrets"), "what is looked for can be found")
	require.NotEmpty(t, filesWith(t, dev.Dir, "drover-sealed:1:dev:"))
}

// planted is a secret of one kind: what it is, and what a step does with it.
type planted struct {
	form   func(string) string // of the value, of a random text; nil: itself
	script string              // reads it from $SECRET
}

// plantedKinds are ways for a secret to get where it must not be.
func plantedKinds() map[string]planted {
	return map[string]planted{
		"printed":             {nil, `echo "a $SECRET b"`},
		"to stderr":           {nil, `echo "$SECRET" >&2`},
		"without newline":     {nil, `printf %s "$SECRET"`},
		"in pieces":           {nil, `printf %s "${SECRET%????????}"; sleep 0.3; printf '%s\n' "${SECRET#"${SECRET%????????}"}"`},
		"byte by byte":        {nil, `printf %s "$SECRET" | while IFS= read -r -n1 c; do printf %s "$c"; done; echo`},
		"many times":          {nil, `for i in 1 2 3 4 5 6 7 8; do printf '%s%s' "$SECRET" "$SECRET"; done; echo`},
		"of lines":            {func(x string) string { return "-----BEGIN\n" + x + "\n" + x + "\n-----END\n" }, `printf %s "$SECRET"`},
		"one of its lines":    {func(x string) string { return "first\n" + x + "\nlast\n" }, `printf '%s\n' "$SECRET" | sed -n 2p`},
		"with CR":             {func(x string) string { return x + "\r\n" + x }, `printf '%s\n' "$SECRET"`},
		"padded":              {func(x string) string { return "  " + x + " " }, `echo $SECRET`},
		"long":                {func(x string) string { return strings.Repeat(x, 1000) }, `printf '%s\n' "$SECRET"`},
		"in base64":           {nil, `printf %s "$SECRET" | base64`},
		"in base64 in lines":  {func(x string) string { return strings.Repeat(x, 5) }, `printf %s "$SECRET" | base64`},
		"within base64":       {nil, `printf 'user:%s' "$SECRET" | base64`},
		"in a URL":            {func(x string) string { return x + "&/ =+?" }, `printf %s "$SECRET" | sed -e 's/&/%26/g' -e 's/\//%2F/g' -e 's/ /%20/g' -e 's/=/%3D/g' -e 's/+/%2B/g' -e 's/?/%3F/g'`},
		"in JSON":             {func(x string) string { return x + "\"\\" }, `printf '{"a": "%s"}\n' "$(printf %s "$SECRET" | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g')"`},
		"beside bytes":        {nil, `printf '\001\377%s\000\376' "$SECRET"`},
		"traced":              {nil, `set -x; test -n "$SECRET"`},
		"put out":             {nil, `echo "told=$SECRET" >> $DROVER_OUTPUT`},
		"a command not found": {nil, `"/nowhere/$SECRET"`},
		"a file's name":       {nil, `cat "/nowhere/$SECRET"`},
		"ended by":            {nil, `echo "$SECRET"; kill -9 $$`},
	}
}

// TestSecrets_planted has a step do each of these with a secret of its own.
// Neither what is told, nor what is kept, nor what processes log has it, or what
// it is in base64, but the records, where it is sealed.
func TestSecrets_planted(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t, []string{"DROVER_LOG__LEVEL=debug"}, "--executor", "shell")
	client := harness.NewClient(t, dev.Server, dev.Token)
	kinds := plantedKinds()
	require.GreaterOrEqual(t, len(kinds), 20)
	texts := map[string]string{} // what must not be found, by kind
	spec := run.Spec{Name: "planted", Group: "/secrets/planted", Secrets: map[string]run.Secret{}, Tasks: map[string]*run.TaskSpec{}}
	tasks := map[string]string{}
	for i, kind := range slices.Sorted(maps.Keys(kinds)) {
		texts[kind] = rand.Text()
		variable, task := fmt.Sprintf("PLANTED_%d", i), fmt.Sprintf("kind-%d", i)
		value := texts[kind]
		if form := kinds[kind].form; form != nil {
			value = form(value)
		}
		spec.Secrets[variable], tasks[task] = run.Secret(value), kind
		spec.Tasks[task] = &run.TaskSpec{IgnoreFailure: true, Shell: []string{"/bin/bash"}, Steps: []run.Step{{Run: "SECRET=$" + variable + "\n" + kinds[kind].script}}}
	}
	body, err := specs.Marshal(&spec)
	require.NoError(t, err)
	id := client.Submit(string(body)).ID
	r := client.AwaitPhase(id, api.PhaseFinished, patience)
	told := everything(t, client, map[string]string{"id": id, "task": "kind-0", "name": "none"})
	for task, kind := range tasks {
		log := client.Logs(id, task)
		told = append(told, log)
		if kind != "put out" {
			require.Contains(t, log, "***", "%s: it reached the step, and is masked", kind)
		}
		require.NotEmpty(t, r.Tasks[task].Status)
	}
	require.Equal(t, "***", r.Tasks[taskOf(tasks, "put out")].Outputs["told"])
	told = append(told, eventsUntil(t, client, 1))
	require.NoError(t, dev.Stop())
	for kind, text := range texts {
		for _, form := range []string{text, base64.StdEncoding.EncodeToString([]byte(text))[:20]} {
			for _, answer := range told {
				require.NotContains(t, answer, form, kind)
			}
			require.Empty(t, filesWith(t, dev.Dir, form), kind)
		}
	}
	require.NotEmpty(t, filesWith(t, dev.Dir, "/secrets/planted"), "what is looked for can be found")
}

func taskOf(tasks map[string]string, kind string) string {
	for task, k := range tasks {
		if k == kind {
			return task
		}
	}
	return ""
}

// everything makes each GET that the API has, and returns what was answered.
func everything(t *testing.T, client *harness.Client, names map[string]string) []string {
	t.Helper()
	data, err := os.ReadFile("../api/openapi.yaml")
	require.NoError(t, err)
	var contract struct {
		Paths map[string]map[string]any `yaml:"paths"`
	}
	require.NoError(t, yaml.Unmarshal(data, &contract))
	var answers []string
	for path, methods := range contract.Paths {
		if methods["get"] == nil {
			continue
		}
		for name, value := range names {
			path = strings.ReplaceAll(path, "{"+name+"}", value)
		}
		if strings.Contains(path, "executors/") {
			path = "/api/v1/executors/none"
		}
		if path == "/api/v1/events" {
			continue // it has no end
		}
		status, body, err := client.Do(t.Context(), http.MethodGet, path, "", "")
		require.NoError(t, err)
		require.Less(t, status, 500, "%s: %s", path, body)
		answers = append(answers, body)
	}
	require.Greater(t, len(answers), 15, "the contract was read")
	return answers
}

// eventsUntil reads the stream of events, as it comes, until so many runs have
// finished.
func eventsUntil(t *testing.T, client *harness.Client, finished int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, client.Server+"/api/v1/events", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+client.Token)
	resp, err := (&http.Client{Timeout: patience}).Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	var text strings.Builder
	for lines := bufio.NewScanner(resp.Body); lines.Scan() && finished > 0; {
		text.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), `"finished"`) {
			finished--
		}
	}
	require.Zero(t, finished, text.String())
	return text.String()
}

// filesWith returns the files below a directory that hold a text.
func filesWith(t *testing.T, dir, text string) []string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(data), text) {
			found = append(found, path)
		}
		return err
	}))
	return found
}
