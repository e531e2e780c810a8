package clients

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/test/harness"
)

// TestSecrets_are_not_exposed seeds a secret through every call that accepts one and
// uses it in tasks. It then reads every path of the API and every stored file.
// Only the records contain the secrets, encrypted.
func TestSecrets_are_not_exposed(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t, []string{"DROVER_LOG__LEVEL=debug"}, "--executor", "shell")
	client := harness.NewClient(t, dev.Server, dev.Token)
	secret := func() string { return "seeded-" + rand.Text() }
	ofRun, ofRestart, ofHook, ofSchedule, ofWrong := secret(), secret(), secret(), secret(), secret()
	seeded := []string{ofRun, ofRestart, ofHook, ofSchedule, ofWrong}
	var observed []string // all response bodies
	call := func(method, path, body string, want int) string {
		t.Helper()
		status, answer, err := client.Do(t.Context(), method, "/api/v1"+path, "application/yaml", body)
		require.NoError(t, err)
		require.Equal(t, want, status, answer)
		observed = append(observed, answer)
		return answer
	}
	spec := func(secret string) string {
		// The steps print the secret, write it to an output, and run a command of
		// that name, which fails.
		return fmt.Sprintf(`{name: secrets, group: /behaviours/secrets, secrets: {TOKEN: %s}, tasks: {
  use: {steps: [{run: 'echo "[$TOKEN]"'}, {run: 'echo "$TOKEN" >&2; echo "output=$TOKEN" >> $DROVER_OUTPUT'}]},
  fail: {steps: [{name: fails, run: '"/nowhere/$TOKEN"', when: always}]},
  approve: {approval: true, steps: [{run: 'true'}]}}}`, secret)
	}
	receiver := newHookReceiver(t)
	receiver.respondWith(http.StatusTeapot) // so that the API reports an error
	call(http.MethodPut, "/webhooks/seeded", fmt.Sprintf("{url: 'http://%s', secret: %s}", receiver.address, ofHook), http.StatusCreated)
	call(http.MethodPut, "/schedules/seeded", fmt.Sprintf("{spec: %s, cron: ['@yearly']}", spec(ofSchedule)), http.StatusCreated)
	call(http.MethodPost, "/schedules/seeded/trigger", "", http.StatusOK)
	call(http.MethodPost, "/runs", strings.Replace(spec(ofWrong), "steps:", "stepps:", 1), http.StatusUnprocessableEntity)
	id := client.Submit(spec(ofRun)).ID
	finish := func(id string) {
		client.Await(id, func(r api.Run) bool { return r.Tasks["approve"].Status == "waiting_approval" })
		call(http.MethodPost, "/runs/"+id+"/tasks/approve/approve", "{}", http.StatusOK)
		client.AwaitPhase(id, api.PhaseFinished)
	}
	finish(id)
	call(http.MethodPost, "/runs/"+id+"/restart", "{from: start, secrets: {TOKEN: "+ofRestart+"}}", http.StatusCreated)
	fired := newSchedules(t, dev).await("seeded", func(s api.Schedule) bool { return len(s.Recent) == 1 && s.Recent[0].Run != "" }).Recent[0].Run
	finish(client.Get(id).RestartedAs[0])
	finish(fired)

	for _, id := range []string{id, client.Get(id).RestartedAs[0], fired} {
		require.Equal(t, "[***]\n***\n", client.Logs(id, "use"), "the step got the secret, and the log masks it")
		observed = append(observed, readAllPaths(t, client, map[string]string{"id": id, "task": "use", "name": "seeded"})...)
		observed = append(observed, client.Logs(id, "fail"))
	}
	observed = append(observed, eventsUntil(t, client, 3))
	testenv.Await(t, func() (bool, string) {
		w := call(http.MethodGet, "/webhooks/seeded", "", http.StatusOK)
		return strings.Contains(w, "418"), w
	})
	require.NoError(t, dev.Stop())
	for _, secret := range seeded {
		for _, answer := range observed {
			require.NotContains(t, answer, secret)
		}
	}
	kept := newSecretScan(t)
	kept.addFiles(dev.Dir)
	for _, secret := range seeded {
		require.Empty(t, kept.sources(secret))
	}
	require.NotEmpty(t, kept.sources("/behaviours/secrets"), "the scan finds text that is there")
	require.NotEmpty(t, kept.sources("drover-sealed:1:dev:"))
}

// readAllPaths calls every GET operation of the API and returns the response
// bodies.
func readAllPaths(t *testing.T, client *harness.Client, names map[string]string) []string {
	t.Helper()
	data, err := os.ReadFile("../../api/openapi.yaml")
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
			continue // the event stream does not end
		}
		status, body, err := client.Do(t.Context(), http.MethodGet, path, "", "")
		require.NoError(t, err)
		require.Less(t, status, 500, "%s: %s", path, body)
		answers = append(answers, body)
	}
	require.Greater(t, len(answers), 15, "the OpenAPI document lists the operations")
	return answers
}

// eventsUntil returns the raw event stream until the given number of runs has
// finished.
func eventsUntil(t *testing.T, client *harness.Client, finished int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience(t))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, client.Server+"/api/v1/events", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+client.Token)
	resp, err := (&http.Client{Timeout: testenv.Patience(t)}).Do(req)
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
