package clitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

func (g *Gateway) create(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		problem(w, http.StatusBadRequest, "unreadable", "the body was cut off")
		return
	}
	if len(body) > run.MaxRequestBytes {
		problem(w, http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("a request may have at most %d bytes", run.MaxRequestBytes))
		return
	}
	format, ok := spec.Detect(r.Header.Get("Content-Type"))
	if !ok {
		problem(w, http.StatusUnsupportedMediaType, "unsupported_media_type", "neither JSON nor YAML")
		return
	}
	var token string
	s, err := spec.Parser{Extra: map[string]*string{"changegroup_token": &token}}.Validate(body, format)
	if err != nil {
		refuse(w, err)
		return
	}
	var faults []api.Fault
	for name, t := range s.Tasks {
		if t.Pool == "none" { // a fault of the engine, which has no line
			faults = append(faults, api.Fault{Path: "tasks." + name + ".pool", Code: "unknown_pool", Detail: "no executor has ever served a pool named none"})
		}
	}
	if len(faults) > 0 {
		problem(w, http.StatusUnprocessableEntity, "invalid", "the specification is not valid", faults...)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	if g.replay(w, key, string(body)) || !g.consumeToken(w, token, s.ChangeGroups) {
		return
	}
	created := g.add(s)
	if key != "" {
		g.groups.keys[key] = idempotentCall{string(body), created.ID}
	}
	answer(w, http.StatusCreated, created)
}

func refuse(w http.ResponseWriter, err error) {
	var coded *run.Error
	if !errors.As(err, &coded) {
		problem(w, http.StatusInternalServerError, "internal", "")
		return
	}
	var faults []api.Fault
	for _, f := range coded.Faults {
		faults = append(faults, api.Fault{Path: f.Path, Line: f.Line, Code: string(f.Code), Detail: f.Detail})
	}
	status := http.StatusUnprocessableEntity
	if coded.Code == run.CodeUnreadable {
		status = http.StatusBadRequest
	}
	problem(w, status, string(coded.Code), coded.Message, faults...)
}

func (g *Gateway) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit, _ := strconv.Atoi(q.Get("limit"))
	if limit < 1 || limit > 100 {
		problem(w, http.StatusBadRequest, "invalid", "limit must be from 1 to 100")
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	page := api.RunPage{Runs: []api.Run{}, ChangegroupToken: g.token(q["token_for"])}
	skip, _ := strconv.Atoi(q.Get("cursor"))
	seen := 0
	for _, known := range slices.Backward(g.runs) {
		if phases := q["phase"]; len(phases) > 0 && !slices.Contains(phases, string(known.Phase)) {
			continue
		}
		if names := q["changegroup"]; len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { return slices.Contains(known.Changegroups, name) }) {
			continue
		}
		if q.Get("warnings") == "true" && (len(known.Warnings) == 0 || known.Result != api.ResultSuccess) {
			continue
		}
		if values := q["input"]; len(values) > 0 && !slices.ContainsFunc(values, func(value string) bool { return hasInput(known, value) }) {
			continue
		}
		seen++
		if seen <= skip {
			continue
		}
		if len(page.Runs) == limit {
			page.NextCursor = strconv.Itoa(skip + limit)
			break
		}
		short := *known
		short.Tasks, short.TaskCounts = nil, make(map[string]int)
		for _, t := range known.Tasks {
			short.TaskCounts[string(t.Status)]++
		}
		page.Runs = append(page.Runs, short)
	}
	answer(w, http.StatusOK, page)
}

// hasInput reports whether an input of a run has a value, in the form NAME=VALUE.
func hasInput(r *api.Run, value string) bool {
	name, text, _ := strings.Cut(value, "=")
	known, has := r.InputValues[name]
	return has && fmt.Sprint(known) == text
}

func (g *Gateway) get(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	known := g.find(r.PathValue("id"))
	if known == nil {
		notFound(w, "run", r.PathValue("id"))
		return
	}
	shown := *known
	shown.ChangegroupToken = g.token(r.URL.Query()["token_for"])
	answer(w, http.StatusOK, shown)
}

func (g *Gateway) act(w http.ResponseWriter, r *http.Request) {
	id, action := r.PathValue("id"), r.PathValue("action")
	phase, ok := g.phase(id)
	var body api.RunStop // an action has fewer fields
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		problem(w, http.StatusBadRequest, "unreadable", "the body is not JSON")
		return
	}
	if action == "stop" && phase == api.PhaseQueued && body.CancelQueued {
		action = "cancel"
	}
	wanted := map[string]api.Phase{"start": api.PhaseQueued, "cancel": api.PhaseQueued, "stop": api.PhaseRunning}[action]
	switch {
	case !ok:
		notFound(w, "run", id)
		return
	case phase != wanted:
		problem(w, http.StatusConflict, "wrong_phase", fmt.Sprintf("run %s is %s, and not %s", id, phase, wanted))
		return
	case !g.consumeRunToken(w, id, body.ChangegroupToken):
		return
	}
	switch action {
	case "start":
		g.Emit(api.Event{Type: api.EventTypeRun, Run: id, Phase: api.PhaseRunning, Result: api.ResultUnknown})
	case "cancel":
		g.Emit(api.Event{Type: api.EventTypeRun, Run: id, Phase: api.PhaseCancelled, Result: api.ResultUnknown})
	case "stop":
		g.mu.Lock()
		g.stopped[id] = true
		g.find(id).StopRequested = true
		g.notify()
		g.mu.Unlock()
	}
	g.get(w, r)
}

// phase returns the phase of a run, and whether the run exists.
func (g *Gateway) phase(id string) (api.Phase, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.find(id); r != nil {
		return r.Phase, true
	}
	return "", false
}

// task returns a task, and whether it exists.
func (g *Gateway) task(id, name string) (api.Task, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.find(id); r != nil {
		t, ok := r.Tasks[name]
		return t, ok
	}
	return api.Task{}, false
}

func (g *Gateway) approve(w http.ResponseWriter, r *http.Request) {
	var body api.RunAction
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		problem(w, http.StatusBadRequest, "unreadable", "the body is not JSON")
		return
	}
	id, name := r.PathValue("id"), r.PathValue("task")
	g.mu.Lock()
	known := g.find(id)
	switch {
	case known == nil:
		notFound(w, "run", id)
	case known.Tasks[name].Status != api.StatusWaitingApproval:
		problem(w, http.StatusConflict, "not_waiting_approval", "task "+name+" does not wait for an approval")
	case !g.consumeToken(w, body.ChangegroupToken, known.Changegroups):
	default:
		t := known.Tasks[name]
		t.Approval.ApprovedBy = append(t.Approval.ApprovedBy, "test")
		known.Tasks[name] = t
		g.approved[id+"/"+name] = true
		g.notify()
		g.mu.Unlock()
		g.get(w, r)
		return
	}
	g.mu.Unlock()
}

func (g *Gateway) annotate(w http.ResponseWriter, r *http.Request) {
	var annotations map[string]string
	if err := json.NewDecoder(r.Body).Decode(&annotations); err != nil {
		problem(w, http.StatusBadRequest, "unreadable", "the body is not JSON")
		return
	}
	g.mu.Lock()
	known := g.find(r.PathValue("id"))
	if known != nil && !g.consumeToken(w, r.URL.Query().Get("changegroup_token"), known.Changegroups) {
		g.mu.Unlock()
		return
	}
	if known != nil {
		if name := r.PathValue("task"); name != "" {
			t := known.Tasks[name]
			t.Annotations = annotations
			known.Tasks[name] = t
		} else {
			known.Annotations = annotations
		}
	}
	g.mu.Unlock()
	g.get(w, r)
}

func (g *Gateway) streamEvents(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if id := q.Get("run"); id != "" {
		if _, ok := g.phase(id); !ok {
			notFound(w, "run", id)
			return
		}
	}
	after, _ := strconv.Atoi(q.Get("after"))
	begin(w)
	for {
		g.mu.Lock()
		events, changed := slices.Clone(g.events[min(after, len(g.events)):]), g.changed
		g.mu.Unlock()
		for _, e := range events {
			after = int(e.Number)
			if (q.Get("run") == "" || q.Get("run") == e.Run) && strings.HasPrefix(e.Group, q.Get("group")) {
				send(w, e.Number, string(e.Type), e)
			}
		}
		if !g.wait(r, changed) {
			return
		}
	}
}

func (g *Gateway) streamLog(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	key := logKey{run: r.PathValue("id"), task: r.PathValue("task")}
	t, ok := g.task(key.run, key.task)
	if !ok {
		notFound(w, "task", key.task)
		return
	}
	if key.attempt, _ = strconv.Atoi(q.Get("attempt")); key.attempt == 0 {
		key.attempt = t.Attempt
	}
	if step, err := strconv.Atoi(q.Get("step")); q.Get("step") != "" && q.Get("step") != "setup" && (err != nil || step >= len(t.Steps)) {
		problem(w, http.StatusNotFound, "not_found", fmt.Sprintf("task %s has no step %d; it has the steps 0 to %d, and setup", key.task, step, len(t.Steps)-1))
		return
	}
	offset, _ := strconv.ParseInt(q.Get("offset"), 10, 64)
	if tail, err := strconv.Atoi(q.Get("tail")); err == nil {
		g.mu.Lock()
		offset = g.log(key).ofStep(q.Get("step")).lastLines(tail)
		g.mu.Unlock()
	}
	begin(w)
	send(w, offset, "start", api.LogStart{Offset: offset})
	for {
		g.mu.Lock()
		l, changed := *g.log(key).ofStep(q.Get("step")), g.changed
		g.mu.Unlock()
		for _, chunk := range l.chunks {
			if skip := offset - chunk.Offset; skip > 0 {
				chunk.Data, chunk.Offset = chunk.Data[min(skip, int64(len(chunk.Data))):], offset
			}
			if len(chunk.Data) > 0 {
				offset = chunk.Offset + int64(len(chunk.Data))
				send(w, offset, "log", chunk)
			}
		}
		if l.ended || q.Get("follow") != "true" {
			send(w, offset, "end", struct{}{})
			return
		}
		if !g.wait(r, changed) {
			return
		}
	}
}

// searchLog answers with one line at a time. Lines do not cross chunks.
func searchLog(g *Gateway, w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if limit, err := strconv.Atoi(q.Get("limit")); err != nil || limit < 1 || limit > 1000 {
		problem(w, http.StatusBadRequest, "invalid", "limit must be an integer from 1 to 1000")
		return
	}
	key := logKey{run: r.PathValue("id"), task: r.PathValue("task")}
	t, ok := g.task(key.run, key.task)
	if !ok {
		notFound(w, "task", key.task)
		return
	}
	if key.attempt, _ = strconv.Atoi(q.Get("attempt")); key.attempt == 0 {
		key.attempt = t.Attempt
	}
	if step, err := strconv.Atoi(q.Get("step")); err == nil && step >= len(t.Steps) {
		notFound(w, "step", q.Get("step"))
		return
	}
	g.mu.Lock()
	chunks := slices.Clone(g.log(key).chunks)
	g.mu.Unlock()
	after, _ := strconv.ParseInt(q.Get("cursor"), 10, 64)
	page, line, offset := api.LogMatches{Matches: []api.LogMatch{}}, int64(0), int64(0)
	for _, chunk := range chunks {
		if step := q.Get("step"); step != "" && step != strconv.Itoa(chunk.Step) && (step != "setup" || chunk.Step != run.SetupStep) {
			continue
		}
		for text := range bytes.Lines(chunk.Data) {
			if line >= after && bytes.Contains(bytes.ToLower(text), bytes.ToLower([]byte(q.Get("text")))) {
				if len(page.Matches) == 1 {
					page.Next = strconv.FormatInt(line, 10)
					answer(w, http.StatusOK, page)
					return
				}
				page.Matches = append(page.Matches, api.LogMatch{Step: chunk.Step, Line: line, Offset: offset, Text: strings.TrimSuffix(string(text), "\n")})
			}
			line, offset = line+1, offset+int64(len(text))
		}
	}
	answer(w, http.StatusOK, page)
}

// wait waits for a change, and reports whether the stream continues.
func (g *Gateway) wait(r *http.Request, changed <-chan struct{}) bool {
	select {
	case <-changed:
	case <-r.Context().Done():
		return false
	case <-g.closed:
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.unavailable
}

func begin(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
}

func send(w http.ResponseWriter, id int64, name string, v any) {
	data, _ := json.Marshal(v) //nolint:errchkjson // the types can all be encoded
	_, _ = fmt.Fprintf(w, ": a comment\n\nid: %d\nevent: %s\ndata: %s\n\n", id, name, data)
	_ = http.NewResponseController(w).Flush()
}
