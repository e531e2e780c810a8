package webhooks_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
	"github.com/drover-run/drover/webhooks"
)

// posted is a receiver of messages over HTTP that checks each against the rules of
// its format.
type posted struct {
	*httptest.Server
	t     testing.TB
	check func(body []byte) error

	mu     sync.Mutex
	answer http.HandlerFunc // nil accepts
	bodies []string         // that were accepted
	calls  int
}

func (w *env) newPosted(check func(body []byte) error) *posted {
	w.t.Helper()
	p := &posted{t: w.t, check: check}
	p.Server = w.serve(p.serve)
	return p
}

func (p *posted) serve(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the connection broke
	}
	if req.Method != http.MethodPost || req.Header.Get("Content-Type") != "application/json" || req.URL.RequestURI() != secretPath {
		p.t.Errorf("%s %s %v", req.Method, req.URL, req.Header)
	}
	if h := req.Header; h.Get(webhooks.HeaderSignature) != "" {
		p.t.Errorf("a message is not signed: its key would be the URL")
	}
	if err := p.check(body); err != nil {
		p.t.Errorf("%v: %s", err, body)
	}
	p.mu.Lock()
	answer := p.answer
	p.calls++
	if answer == nil {
		p.bodies = append(p.bodies, string(body))
	}
	p.mu.Unlock()
	if answer != nil {
		answer(w, req)
	}
}

func (p *posted) setAnswer(answer http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

func (p *posted) await(n int) []string {
	p.t.Helper()
	var got []string
	testenv.Await(p.t, func() (bool, string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		got = append([]string(nil), p.bodies...)
		return len(got) >= n, fmt.Sprintf("%d of %d messages: %v", len(got), n, got)
	})
	require.Len(p.t, got, n)
	return got
}

// awaitLast waits for a message with a text, and returns all messages. Those
// before it may be duplicates.
func (p *posted) awaitLast(text string) []string {
	p.t.Helper()
	var got []string
	testenv.Await(p.t, func() (bool, string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		got = append([]string(nil), p.bodies...)
		return len(got) > 0 && strings.Contains(got[len(got)-1], text), fmt.Sprint(got)
	})
	return got
}

const secretPath = "/services/T0/B0/sesame?sig=hunter2"

func (w *env) putMessages(p *posted, format run.WebhookFormat, change func(*run.WebhookSpec)) {
	w.t.Helper()
	hook := run.WebhookSpec{Name: "ci", Format: format, URL: p.URL + secretPath, Enabled: true}
	if change != nil {
		change(&hook)
	}
	require.Empty(w.t, spec.ValidateWebhook(hook))
	shown, _, err := w.store.PutWebhook(w.t.Context(), hook)
	require.NoError(w.t, err)
	require.NotContains(w.t, fmt.Sprintf("%+v", shown), "sesame")
}

// finish runs a run of a group to its end. failed fails its task; allowed says
// that this is allowed.
func (w *env) finish(group, name string, failed, allowed bool) run.ID {
	w.t.Helper()
	ctx := w.t.Context()
	of := &run.Spec{Name: name, Group: group, Tasks: map[string]*run.TaskSpec{
		"build": {Pool: "linux", Steps: []run.Step{{Run: "true"}}, AllowFailure: allowed},
	}}
	x, faults := spec.Expand(of, func(_ string, t *run.TaskSpec) (string, error) { return t.Pool, nil })
	require.Empty(w.t, faults)
	r, err := w.store.CreateRun(ctx, records.NewRun{Spec: of, Plan: x.Plan, Tasks: x.Tasks})
	require.NoError(w.t, err)
	_, err = w.store.Begin(ctx, r.ID)
	require.NoError(w.t, err)
	end, result, reason := run.StatusSuccess, run.ResultSuccess, ""
	if failed {
		end, reason = run.StatusFailed, "<!channel> step 1 exited & failed\r\nX: y"
		if !allowed {
			result = run.ResultFailed
		}
	}
	_, _, err = w.store.Apply(ctx, r.ID, records.Changes{
		Tasks: []run.TaskChange{{Attempt: 1, Dispatch: 1, Status: run.StatusQueued}},
	})
	require.NoError(w.t, err)
	_, _, err = w.store.Apply(ctx, r.ID, records.Changes{
		Tasks:  []run.TaskChange{{Attempt: 1, Dispatch: 1, Status: end, Reason: reason}},
		Result: result, Reason: reason, Finish: true,
	})
	require.NoError(w.t, err)
	return r.ID
}

// awaitApproval makes a task of a new run wait for approval.
func (w *env) awaitApproval(group string) run.ID {
	w.t.Helper()
	id := w.create(group)
	_, err := w.store.Begin(w.t.Context(), id)
	require.NoError(w.t, err)
	wait := run.TaskChange{Status: run.StatusWaitingApproval, Reason: "waits for an approval"}
	_, _, err = w.store.Apply(w.t.Context(), id, records.Changes{Tasks: []run.TaskChange{wait}})
	require.NoError(w.t, err)
	wait.Reason = "waits for 2 approvals" // the same wait
	_, _, err = w.store.Apply(w.t.Context(), id, records.Changes{Tasks: []run.TaskChange{wait}})
	require.NoError(w.t, err)
	return id
}

// strict decodes JSON and refuses unknown keys.
func strict(body []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// checkSlack checks a body by the rules of incoming webhooks and Block Kit.
func checkSlack(body []byte) error {
	type text struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Emoji    *bool  `json:"emoji"`
		Verbatim *bool  `json:"verbatim"`
	}
	var m struct {
		Text   string `json:"text"`
		Blocks []struct {
			Type     string `json:"type"`
			Text     *text  `json:"text"`
			Fields   []text `json:"fields"`
			Elements []text `json:"elements"`
		} `json:"blocks"`
	}
	if err := strict(body, &m); err != nil {
		return err
	}
	check := func(x text, most int) error {
		switch {
		case x.Type != "plain_text" && x.Type != "mrkdwn", len(x.Text) == 0, len(x.Text) > most:
			return fmt.Errorf("text %+v", x)
		case x.Type == "mrkdwn" && (strings.Contains(x.Text, "<!") || strings.Contains(x.Text, "<@") || x.Verbatim == nil || !*x.Verbatim || x.Emoji != nil):
			return fmt.Errorf("markup %+v", x)
		case x.Type == "plain_text" && x.Verbatim != nil:
			return fmt.Errorf("plain text %+v", x)
		}
		return nil
	}
	if m.Text == "" || strings.Contains(m.Text, "<") || len(m.Blocks) == 0 || len(m.Blocks) > 50 {
		return fmt.Errorf("text %q with %d blocks", m.Text, len(m.Blocks))
	}
	for _, b := range m.Blocks {
		texts, most := b.Fields, 2000
		switch {
		case b.Type == "header" && b.Text != nil && b.Text.Type == "plain_text" && b.Fields == nil && b.Elements == nil:
			if err := check(*b.Text, 150); err != nil {
				return err
			}
		case b.Type == "section" && (b.Text != nil || len(b.Fields) > 0) && len(b.Fields) <= 10 && b.Elements == nil:
			if b.Text != nil {
				if err := check(*b.Text, 3000); err != nil {
					return err
				}
			}
		case b.Type == "context" && len(b.Elements) > 0 && len(b.Elements) <= 10 && b.Text == nil && b.Fields == nil:
			texts, most = b.Elements, 3000
		default:
			return fmt.Errorf("block %+v", b)
		}
		for _, x := range texts {
			if err := check(x, most); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkTeams checks a body by the rules of workflows and adaptive cards.
func checkTeams(body []byte) error {
	var m struct {
		Type        string `json:"type"`
		Attachments []struct {
			ContentType string          `json:"contentType"`
			ContentURL  json.RawMessage `json:"contentUrl"`
			Content     struct {
				Schema  string `json:"$schema"`
				Type    string `json:"type"`
				Version string `json:"version"`
				Body    []struct {
					Type    string `json:"type"`
					Inlines []struct {
						Type     string `json:"type"`
						Text     string `json:"text"`
						Size     string `json:"size"`
						Weight   string `json:"weight"`
						Color    string `json:"color"`
						FontType string `json:"fontType"`
					} `json:"inlines"`
					Text    string `json:"text"`
					Wrap    bool   `json:"wrap"`
					Spacing string `json:"spacing"`
				} `json:"body"`
				Actions []struct {
					Type  string `json:"type"`
					Title string `json:"title"`
					URL   string `json:"url"`
				} `json:"actions"`
			} `json:"content"`
		} `json:"attachments"`
	}
	if err := strict(body, &m); err != nil {
		return err
	}
	if len(body) > 28<<10 || m.Type != "message" || len(m.Attachments) != 1 {
		return fmt.Errorf("%s of %d bytes with %d attachments", m.Type, len(body), len(m.Attachments))
	}
	a := m.Attachments[0]
	if a.ContentType != "application/vnd.microsoft.card.adaptive" || a.Content.Type != "AdaptiveCard" || a.Content.Version != "1.4" || len(a.Content.Body) == 0 {
		return fmt.Errorf("attachment %+v", a)
	}
	for _, b := range a.Content.Body {
		switch {
		case b.Type == "RichTextBlock" && len(b.Inlines) > 0 && b.Text == "":
			for _, x := range b.Inlines {
				if x.Type != "TextRun" || x.Text == "" {
					return fmt.Errorf("inline %+v", x)
				}
			}
		case b.Type == "TextBlock" && b.Text != "" && b.Inlines == nil:
		default:
			return fmt.Errorf("element %+v", b)
		}
	}
	for _, x := range a.Content.Actions {
		if x.Type != "Action.OpenUrl" || x.Title == "" || !strings.HasPrefix(x.URL, "https://") {
			return fmt.Errorf("action %+v", x)
		}
	}
	return nil
}

func messageFormats() map[run.WebhookFormat]func([]byte) error {
	return map[run.WebhookFormat]func([]byte) error{run.WebhookSlack: checkSlack, run.WebhookTeams: checkTeams}
}

func TestDeliver_messages(t *testing.T) {
	t.Parallel()
	for format, check := range messageFormats() {
		t.Run(string(format), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newEnv(t)
				p := w.newPosted(check)
				w.opts.RunURL = "https://ci.example.com/runs/{run}?a=b"
				w.putMessages(p, format, nil)
				w.deliver()
				failed := w.finish("/team/api", "<!here> *build* [x](https://evil.example.com)", true, false)
				wanted := w.awaitApproval("/team/api")
				w.finish("/team/api", strings.Repeat("long ", 500), false, false)
				got := p.await(3)
				require.Contains(t, got[0], "build")
				require.Contains(t, got[0], "drover runs get "+string(failed))
				require.Contains(t, got[0], "https://ci.example.com/runs/"+string(failed))
				require.Contains(t, got[0], "step 1 exited")
				require.Contains(t, got[1], "waits for approval")
				require.Contains(t, got[1], "drover runs approve "+string(wanted)+" build")
				require.Contains(t, got[2], "succeeded")
				hook := w.await(func(h run.Webhook) bool { return h.Failures == 0 && h.Delivered > 0 })
				require.NotContains(t, hook.URL, "sesame")
			})
		})
	}
}

func TestDeliver_messages_are_filtered(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*run.WebhookSpec)
		want   []string
	}{
		"failed":   {func(s *run.WebhookSpec) { s.Results = []run.Outcome{run.OutcomeFailed} }, []string{"bad #", "waits for approval"}},
		"warnings": {func(s *run.WebhookSpec) { s.Results = []run.Outcome{run.OutcomeWarnings} }, []string{"warned #", "waits for approval"}},
		"success":  {func(s *run.WebhookSpec) { s.Results = []run.Outcome{run.OutcomeSuccess} }, []string{"good #", "other #", "waits for approval"}},
		"approval": {func(s *run.WebhookSpec) { s.Events = []run.EventType{run.EventApprovalWanted} }, []string{"waits for approval"}},
		"group":    {func(s *run.WebhookSpec) { s.Groups = []string{"/*/web"} }, []string{"other #"}},
		"groups": {func(s *run.WebhookSpec) {
			s.Groups, s.Events = []string{"/x", "/team/api"}, []run.EventType{run.EventRun}
		}, []string{"good #", "bad #", "warned #"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newEnv(t)
				p := w.newPosted(checkSlack)
				w.finish("/team/api", "good", false, false)
				w.finish("/team/api", "bad", true, false)
				w.finish("/team/api/v2", "warned", true, true)
				w.finish("/team/web", "other", false, false)
				w.awaitApproval("/team/api")
				w.putMessages(p, run.WebhookSlack, func(s *run.WebhookSpec) {
					s.From = "1"
					tt.change(s)
				})
				w.deliver()
				for i, body := range p.await(len(tt.want)) {
					require.Contains(t, body, tt.want[i])
				}
			})
		})
	}
}

// TestDeliver_results_of_the_drover_format checks the filter on signed batches.
func TestDeliver_results_of_the_drover_format(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		r := w.newReceiver()
		w.finish("/a/b", "good", false, false) // events 1 to 5, the last is its end
		w.finish("/a/b", "bad", true, false)   // events 6 to 10
		w.put(r, func(s *run.WebhookSpec) {
			s.From, s.Events, s.Results = "1", []run.EventType{run.EventRun}, []run.Outcome{run.OutcomeFailed}
		})
		w.deliver()
		r.awaitAccepted(10)
	})
}

// TestDeliver_results_of_deleted_runs checks the filter on runs that were deleted before the
// delivery: their events tell whether there were warnings.
func TestDeliver_results_of_deleted_runs(t *testing.T) {
	t.Parallel()
	for result, want := range map[run.Outcome]int64{run.OutcomeSuccess: 5, run.OutcomeWarnings: 10} {
		t.Run(string(result), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newEnv(t)
				r := w.newReceiver()
				for _, id := range []run.ID{w.finish("/a/b", "good", false, false), w.finish("/a/b", "warned", true, true)} {
					require.NoError(t, w.store.DeleteRun(t.Context(), id))
				}
				w.put(r, func(s *run.WebhookSpec) {
					s.From, s.Events, s.Results = "1", []run.EventType{run.EventRun}, []run.Outcome{result}
				})
				w.deliver()
				r.awaitAccepted(want)
			})
		})
	}
}

func TestDeliver_templates(t *testing.T) {
	t.Parallel()
	text := `*{{.Name}}* <https://wiki.example.com|runbook>{{range .Failed}} {{.Reason}}{{end}}{{if eq .Outcome "success"}}{{if eq .More "x"}}{{end}}{{end}}`
	for format, check := range messageFormats() {
		t.Run(string(format), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newEnv(t)
				p := w.newPosted(check)
				w.putMessages(p, format, func(s *run.WebhookSpec) {
					s.Template = &run.MessageTemplate{Title: "{{.Name}} in {{.Group}}", Text: text}
				})
				w.deliver()
				w.finish("/team/api", "nightly", true, false)
				w.finish("/team/api", "odd", false, false)
				got := p.await(2)
				require.Contains(t, got[0], "nightly in /team/api")
				require.Contains(t, got[0], "runbook")
				var escaped string
				for _, want := range []string{`\u0026lt;!channel\u0026gt; step`, `\\\u003c\\!channel\\\u003e step`} {
					if strings.Contains(got[0], want) {
						escaped = want
					}
				}
				require.NotEmpty(t, escaped, got[0])
				require.Contains(t, got[1], "odd in /team/api")
				require.Contains(t, got[1], "Result", "a template that fails on an event has Drover's text")
			})
		})
	}
}

func TestDeliver_messages_tries_again(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		reason string
	}{
		"too_many": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(http.StatusTooManyRequests)
		}, "429 Too Many Requests"},
		"unavailable": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "502 Bad Gateway"},
		"gone":        {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }, "410 Gone"},
		"hangs":       {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "timeout"},
		"breaks":      {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newEnv(t)
				p := w.newPosted(checkSlack)
				p.setAnswer(tt.answer)
				w.putMessages(p, run.WebhookSlack, nil)
				w.deliver()
				w.finish("/team/api", "first", true, false)
				hook := w.await(func(h run.Webhook) bool { return h.Failures > 0 })
				require.Contains(t, hook.LastError, tt.reason)
				require.NotContains(t, hook.LastError, "sesame")
				require.NotContains(t, hook.LastError, "hunter2")
				if name == "too_many" {
					require.Equal(t, 2*time.Minute, hook.NextAttemptAt.Sub(hook.LastAttemptAt))
				}
				w.finish("/team/api", "second", false, false)
				p.setAnswer(nil)
				w.putMessages(p, run.WebhookSlack, func(s *run.WebhookSpec) { s.URL = run.HiddenURL(s.URL) }) // retries at once
				got := p.awaitLast("second")
				require.GreaterOrEqual(t, len(got), 2)
				for _, body := range got[:len(got)-1] {
					require.Contains(t, body, "first")
				}
			})
		})
	}
}

// TestDeliver_messages_of_removed_runs checks that a message is delivered even if
// its run is gone.
func TestDeliver_messages_of_removed_runs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		p := w.newPosted(checkTeams)
		id := w.finish("/team/api", "first", true, false)
		require.NoError(t, w.store.DeleteRun(t.Context(), id))
		w.putMessages(p, run.WebhookTeams, func(s *run.WebhookSpec) { s.From = "1" })
		w.deliver()
		require.Contains(t, p.await(1)[0], string(id)+" failed")
	})
}

func TestDeliver_tests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		p := w.newPosted(checkSlack)
		w.putMessages(p, run.WebhookSlack, nil)
		w.deliver()
		got, err := w.store.TestWebhook(t.Context(), "ci")
		require.NoError(t, err)
		require.Equal(t, int64(1), got.Test.Requested)
		hook := w.await(func(h run.Webhook) bool { return h.Test.Done == 1 })
		require.Empty(t, hook.Test.Error)
		require.Contains(t, p.await(1)[0], "Test of the webhook ci")
		p.setAnswer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
		_, err = w.store.TestWebhook(t.Context(), "ci")
		require.NoError(t, err)
		hook = w.await(func(h run.Webhook) bool { return h.Test.Done == 2 })
		require.Contains(t, hook.Test.Error, "404")
		require.Empty(t, hook.LastError, "a test is no delivery")
		w.putMessages(p, run.WebhookSlack, func(s *run.WebhookSpec) { s.Enabled = false })
		_, err = w.store.TestWebhook(t.Context(), "ci")
		require.Equal(t, run.CodeConflict, run.CodeOf(err))
	})
}
