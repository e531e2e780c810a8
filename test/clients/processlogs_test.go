package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/test/harness"
)

// TestProcessLogs parses every line that processes log at debug, in both formats:
// no line repeats a key, durations are texts, and the access log has the caller and
// the run of a request.
func TestProcessLogs(t *testing.T) {
	t.Parallel()
	t.Run("parts json", func(t *testing.T) {
		t.Parallel()
		env := []string{"DROVER_LOG__LEVEL=debug", "DROVER_LOG__FORMAT=json"}
		p := harness.StartParts(t, "2", map[harness.Part][]string{
			harness.Temporal: env, harness.Gateway: env, harness.Control: env, harness.Executor: env,
		})
		id := logSomething(t, p.Client)
		p.Processes[harness.Executor].Kill()
		require.NoError(t, p.Processes[harness.Control].Stop())
		require.NoError(t, p.Processes[harness.Gateway].Stop())
		for part, process := range p.Processes {
			lines := logLines(t, process.Output(), parseJSONLine)
			require.NotEmpty(t, lines, part)
			if part == harness.Gateway {
				requireAccessLog(t, lines, id, "admin")
			}
		}
	})
	t.Run("dev text", func(t *testing.T) {
		t.Parallel()
		dev := harness.StartDev(t, []string{"DROVER_LOG__LEVEL=debug"}, "--executor", "shell")
		id := logSomething(t, dev.Client)
		require.NoError(t, dev.Stop())
		requireAccessLog(t, logLines(t, dev.Output(), parseTextLine), id, "admin")
	})
}

// logSomething makes calls after which each part has logged something, and returns
// the ID of a run.
func logSomething(t *testing.T, c *harness.Client) string {
	t.Helper()
	id := c.Submit(`{name: logged, group: /test/logged, tasks: {a: {pool: shell, retry: {max_attempts: 2}, steps: [{run: 'echo a; exit 3'}]}, b: {pool: shell, steps: [{run: 'true'}]}}}`).ID
	c.AwaitPhase(id, api.PhaseFinished)
	for path, want := range map[string]int{
		"/api/v1/runs/" + id + "/stop": http.StatusConflict, "/api/v1/runs": http.StatusUnprocessableEntity, "/nowhere": http.StatusNotFound,
	} {
		status, body, err := c.Do(t.Context(), http.MethodPost, path, "application/json", `{}`)
		require.NoError(t, err)
		require.Contains(t, []int{want, http.StatusOK}, status, body)
	}
	stranger := harness.NewClient(t, c.Server, "wrong-token")
	status, body, err := stranger.Do(t.Context(), http.MethodGet, "/api/v1/runs/"+id, "", "")
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, status, body)
	return id
}

// requireAccessLog checks the lines for the requests that concern a run.
func requireAccessLog(t *testing.T, lines []map[string]string, id, subject string) {
	t.Helper()
	created, refused := false, false
	for _, line := range lines {
		require.NotContains(t, fmt.Sprint(line), "wrong-token")
		if line["msg"] != "request" || line["run_id"] != id {
			continue
		}
		require.NotEmpty(t, line["request_id"])
		created = created || line["method"] == http.MethodPost && line["route"] == "/api/v1/runs" && line["status"] == "201" &&
			line["subject"] == subject && line["level"] == "INFO"
		refused = refused || line["status"] == "401" && line["level"] == "INFO" && line["reason"] != ""
	}
	require.True(t, created, "the log has the creation of the run")
	require.True(t, refused, "the log has the refused call")
}

// printed matches the lines that processes print for people, to standard output.
var printed = regexp.MustCompile(`^(ready: .*|[A-Z][A-Za-z ]+  .*|)$`)

// logLines parses the log of a process, and fails on a line that repeats a key.
func logLines(t *testing.T, log string, parse func(line string) (keys, values []string, err error)) []map[string]string {
	t.Helper()
	var out []map[string]string
	for line := range strings.Lines(log) {
		line = strings.TrimRight(line, "\n")
		if printed.MatchString(line) {
			continue
		}
		keys, values, err := parse(line)
		require.NoError(t, err, line)
		fields := make(map[string]string, len(keys))
		for i, key := range keys {
			_, repeated := fields[key]
			require.False(t, repeated, "the line has the key %s twice: %s", key, line)
			fields[key] = values[i]
			if key == "duration" || key == "retry_in" || key == "took" {
				require.Regexp(t, `^-?[0-9.]+(ns|µs|ms|s|m|h)`, values[i], line)
			}
		}
		for _, key := range []string{"time", "level", "msg"} {
			require.NotEmpty(t, fields[key], line)
		}
		out = append(out, fields)
	}
	return out
}

// parseJSONLine reads the keys of an object, also those inside of its values.
func parseJSONLine(line string) (keys, values []string, err error) {
	decoder := json.NewDecoder(strings.NewReader(line))
	decoder.UseNumber()
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil, nil, fmt.Errorf("the line is no object: %w", err)
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, nil, err
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, nil, err
		}
		text := string(value)
		switch {
		case bytes.HasPrefix(value, []byte(`"`)):
			if err := json.Unmarshal(value, &text); err != nil {
				return nil, nil, err
			}
		case bytes.HasPrefix(value, []byte(`{`)):
			if _, _, err := parseJSONLine(text); err != nil {
				return nil, nil, err
			}
		}
		keys, values = append(keys, fmt.Sprint(key)), append(values, text)
	}
	return keys, values, nil
}

// parseTextLine reads the pairs of a line of slog's text handler.
func parseTextLine(line string) (keys, values []string, err error) {
	text := func(end string) (string, error) {
		if !strings.HasPrefix(line, `"`) {
			i := strings.IndexAny(line, end)
			if i < 0 {
				i = len(line)
			}
			word := line[:i]
			line = line[i:]
			return word, nil
		}
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			return "", err
		}
		line = line[len(quoted):]
		return strconv.Unquote(quoted)
	}
	for line != "" {
		key, err := text("= ")
		if err != nil || !strings.HasPrefix(line, "=") {
			return nil, nil, fmt.Errorf("the line has a text that is no pair at %q", line)
		}
		line = line[1:]
		value, err := text(" ")
		if err != nil {
			return nil, nil, err
		}
		keys, values = append(keys, key), append(values, value)
		line = strings.TrimPrefix(line, " ")
	}
	return keys, values, nil
}
