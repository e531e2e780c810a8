package message_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/cputime"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec/message"
)

func TestOf_titles(t *testing.T) {
	t.Parallel()
	r := &run.Run{Name: "nightly", Counter: 7, TaskCounts: map[run.Status]int{run.StatusFailed: 1}}
	for want, e := range map[string]run.Event{
		"nightly #7 failed":                        {Type: run.EventRun, Phase: run.PhaseFinished, Result: run.ResultFailed},
		"nightly #7 succeeded with warnings":       {Type: run.EventRun, Phase: run.PhaseFinished, Result: run.ResultSuccess},
		"nightly #7 was stopped":                   {Type: run.EventRun, Phase: run.PhaseFinished, Result: run.ResultStopped},
		"nightly #7 was cancelled":                 {Type: run.EventRun, Phase: run.PhaseCancelled},
		"nightly #7 could not be set up":           {Type: run.EventRun, Phase: run.PhaseSetupError},
		"nightly #7: deploy waits for approval":    {Type: run.EventApprovalWanted, Task: "deploy"},
		"nightly #7: a  Bcc: x waits for approval": {Type: run.EventApprovalWanted, Task: "a\r\nBcc: x"},
	} {
		require.Equal(t, want, message.Of("ci", e, r, nil).Title())
	}
	gone := message.Of("ci", run.Event{Type: run.EventRun, Run: "01x", Phase: run.PhaseFinished, Result: run.ResultSuccess}, nil, nil)
	require.Equal(t, "01x succeeded", gone.Title())
	gone = message.Of("ci", run.Event{Type: run.EventRun, Run: "01x", Phase: run.PhaseFinished, Result: run.ResultSuccess, FailedTasks: new(2)}, nil, nil)
	require.Equal(t, string(run.OutcomeWarnings), gone.Outcome)
	r.Name = strings.Repeat("ä", 500)
	long := message.Of("ci", run.Event{Type: run.EventRun, Phase: run.PhaseFinished, Result: run.ResultFailed}, r, nil).Title()
	require.LessOrEqual(t, len(long), message.MaxTitle)
	require.True(t, strings.HasSuffix(long, " failed"), long)
}

func TestOf_names_a_bounded_number_of_failed_tasks(t *testing.T) {
	t.Parallel()
	r := &run.Run{TaskCounts: map[run.Status]int{run.StatusFailed: 5000}}
	var failed []message.Task
	for range message.MaxFailed + 1 {
		failed = append(failed, message.Failed(strings.Repeat("n", 5000), strings.Repeat("r", 5000), nil, false))
	}
	d := message.Of("ci", run.Event{Type: run.EventRun, Phase: run.PhaseFinished, Result: run.ResultFailed}, r, failed)
	lines := d.FailedLines()
	require.Len(t, lines, message.MaxFailed+1)
	require.Equal(t, "and 4990 more", lines[message.MaxFailed])
	require.Less(t, len(strings.Join(lines, "\n")), message.MaxText)
}

func TestOf_quotes_the_command(t *testing.T) {
	t.Parallel()
	e := run.Event{Type: run.EventApprovalWanted, Run: "01x", Task: "a'; rm -rf /; [X=1]"}
	require.Equal(t, `drover runs approve 01x 'a'\''; rm -rf /; [X=1]'`, message.Of("ci", e, nil, nil).Command)
	require.Equal(t, "'-f'", message.Quote("-f"))
	require.Equal(t, "a/b-c_1.2", message.Quote("a/b-c_1.2"))
}

func TestTemplate(t *testing.T) {
	t.Parallel()
	text := `{{if eq .Event "finished"}}{{.Name}} {{.Outcome}}{{range .Failed}} [{{.Name}}: {{.Reason}}]{{end}} +{{.More}}{{else}}{{.Task}}?{{end}}`
	require.NoError(t, message.Check(text))
	c, err := message.Compile(text)
	require.NoError(t, err)
	samples := message.Samples("ci")
	got, err := c.Execute(samples[0], 1000)
	require.NoError(t, err)
	require.Equal(t, "nightly failed [build[GO=1.26]: exit code 1] +1", got)
	got, err = c.Execute(samples[1], 1000)
	require.NoError(t, err)
	require.Equal(t, "deploy?", got)
	got, err = c.Execute(samples[0], 10)
	require.NoError(t, err)
	require.Equal(t, "nightly fa", got)
}

// TestCheck_refuses lists what would let a template do more than read the event,
// or run longer than its length permits.
func TestCheck_refuses(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"syntax":         "{{if}}",
		"unknown_field":  "{{.Secret}}",
		"method":         "{{.FailedLines}}",
		"method_of_root": "{{$.Facts}}",
		"call":           "{{call .Name}}",
		"format":         `{{printf "%999999999d" 1}}`,
		"print":          `{{$a := "x"}}{{$a = print $a $a}}`,
		"number":         "{{range 1000000000}}{{end}}",
		"variable":       "{{$n := 1000000000}}{{range $n}}{{end}}",
		"nested":         "{{range .Failed}}{{range $.Failed}}{{end}}{{end}}",
		"string":         `{{range .Name}}{{end}}`,
		"recursion":      `{{define "a"}}{{template "a"}}{{template "a"}}{{end}}{{template "a"}}`,
		"block":          `{{block "a" .}}{{end}}`,
		"chain":          "{{(index .Failed 0).Name}}",
		"long":           strings.Repeat("x", run.MaxTemplateLength+1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Error(t, message.Check(text))
		})
	}
}

// TestCheck_words checks that common mistakes are explained without the words of package
// template and the names of Go types.
func TestCheck_words(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{{Name}}":                              "a field begins with a dot: {{.Name}}",
		"{{upper .Name}}":                       `there is no function "upper"; there are and, or, not, eq, ne, lt, le, gt, ge, len, and a field begins with a dot: {{.Name}}`,
		"{{.Names}}":                            "there is no field .Names here; did you mean .Name?",
		"a\n{{.Secret}}":                        "line 2: there is no field .Secret here; there are .Webhook, .Event, .Time, .Run, .Name, .Number, .Group, .Outcome, .Reason, .Duration, .CreatedBy, .Actor, .Task, .Failed, .More, .Link, .Command",
		"{{range .Failed}}{{.ExitCode}}{{end}}": "there is no field .ExitCode here; there are .Name, .Reason, .Allowed",
		"{{.Name.First}}":                       "a text has no field .First",
		`{{.Name "x"}}`:                         ".Name is a field, and takes no values",
		"{{if .Name}}x":                         "an {{if}}, {{with}} or {{range}} is not closed with {{end}}",
		"{{end}}":                               "{{end}} has no {{if}}, {{with}} or {{range}} before it",
		"{{else}}":                              "{{else}} has no {{if}}, {{with}} or {{range}} before it",
		"a\n{{.Name\n":                          "line 2: {{ is not closed with }}",
		"{{if}}x{{end}}":                        "if needs a value, as in {{if .Failed}}",
		"{{}}":                                  "{{ }} has no content",
		`{{if .Outcome == "failed"}}x{{end}}`:   `= cannot stand here; eq compares, as in {{if eq .Outcome "failed"}}`,
		"{{if eq .Outcome 'failed'}}x{{end}}":   "a text is in double quotes, and ends in the same line",
		"{{if eq .Outcome “failed”}}x{{end}}": "the character “ cannot stand here; a text is in double quotes",
		`{{if eq .Outcome "failed}}x{{end}}`:  "a text is in double quotes, and ends in the same line",
		"{{if eq .Outcome 1}}x{{end}}":        "eq cannot compare a text with a number",
		"{{if eq .Outcome}}x{{end}}":          `eq compares two texts or numbers, as in {{if eq .Outcome "failed"}}`,
		"{{if eq .Failed .Failed}}x{{end}}":   `eq compares two texts or numbers, as in {{if eq .Outcome "failed"}}`,
		"{{len}}":                             "len is of one text or list, as in {{len .Failed}}",
		"{{len 1}}":                           "len is of one text or list, as in {{len .Failed}}",
		"{{not}}":                             "not is of one value, as in {{if not .Failed}}",
		"{{and}}":                             "and needs a value",
		"{{$x}}":                              "there is no variable $x",
		"{{.Name | 1}}":                       "a function is expected after |",
		"{{(.Name}}":                          "( and ) do not match",
		"{{.Name)}}":                          "( and ) do not match",
		"{{/* a }}":                           "a comment has the form {{/* ... */}}",
		"{{break}}":                           "{{break}} is for {{range}} alone",
		"{{1x}}":                              "1x is not a number",
		"{{.Name .}}":                         ".Name is a field, and takes no values",
		"{{.Name}":                            "{{ is closed with }}, and not with }",
		"{{if .Name}}{{else}}{{else}}{{end}}": "",
		"{{.}}{{nil}}":                        "",
		"{{1 2}}":                             "",
		"{{if .Name | 2}}{{end}}":             "",
		"{{with $x, $y := .Name}}{{end}}":     "",
		"{{range 1 2}}{{end}}":                "",
		"{{.Failed.Name}}":                    "a list has no field .Name",
		"{{.More.Name}}":                      "a number has no field .Name",
		"{{99999999999999999999}}":            "",
		"{{\"\\x\"}}":                         "",
		"{{template \"x\"}}":                  "",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			err := message.Check(text)
			require.Error(t, err)
			if want != "" {
				require.EqualError(t, err, want)
			}
			require.NotRegexp(t, `template:|executing|message\.|\bint\b|\bstring\b|operand|EOF|term|args`, err.Error())
			t.Log(err)
		})
	}
}

func FuzzCheck(f *testing.F) {
	for _, text := range []string{"{{.Name}}", "{{range .Failed}}{{.Name}}{{end}}", `{{with $x := .Name}}{{$x | len | eq 3}}{{end}}`, "{{- /* a */ -}}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		const times = 100
		longest := strings.Repeat("{{range .Failed}}{{.Name}}{{end}}", run.MaxTemplateLength/33)
		cputime.AtMost(t, times, func() { checkMessage(t, longest) }, func() { checkMessage(t, text) })
	})
}

// checkMessage executes a template if it is valid.
func checkMessage(t *testing.T, text string) {
	t.Helper()
	if message.Check(text) != nil {
		return
	}
	c, err := message.Compile(text)
	require.NoError(t, err)
	for _, d := range message.Samples("ci") {
		out, err := c.Execute(d, message.MaxText)
		require.NoError(t, err)
		require.LessOrEqual(t, len(out), message.MaxText)
	}
}

func TestOf_duration(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for took, want := range map[time.Duration]string{
		146 * time.Millisecond:                "146ms",
		1_234_567 * time.Microsecond:          "1.235s",
		9*time.Second + 999*time.Millisecond:  "9.999s",
		10*time.Second + 400*time.Millisecond: "10s",
		59*time.Second + 600*time.Millisecond: "1m0s",
		time.Hour + 1500*time.Millisecond:     "1h0m2s",
	} {
		r := &run.Run{Name: "nightly", StartedAt: start, EndedAt: start.Add(took)}
		got := message.Of("ci", run.Event{Type: run.EventRun, Phase: run.PhaseFinished, Result: run.ResultSuccess}, r, nil)
		require.Equal(t, want, got.Duration, took)
	}
}

func TestData_Facts_of_an_approval(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string][]message.Fact{
		"waits for an approval": {{"Run", "r"}, {"Task", "deploy"}},
		"waits for 2 approvals": {{"Run", "r"}, {"Task", "deploy"}, {"Reason", "waits for 2 approvals"}},
	} {
		d := message.Of("ci", run.Event{Type: run.EventApprovalWanted, Run: "r", Task: "deploy", Reason: reason}, nil, nil)
		require.Equal(t, "r: deploy waits for approval", d.Title())
		require.Equal(t, want, d.Facts())
		require.Equal(t, reason, d.Reason, "of templates")
	}
}
