package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/internal/mask"
	"github.com/drover-run/drover/run"
)

const (
	// serviceLogTimeout bounds how long the end of a task waits for the logs of its services.
	serviceLogTimeout = 10 * time.Second
	// frameSpan is the longest time between two lines of a service in one frame.
	frameSpan = time.Second
	// sharedShare divides the bounds of the output in a set: its journal is written as a
	// whole with each batch.
	sharedShare = 4
	// sharedEntryBytes bounds the entry of a set's journal with the output of services. The
	// records of the batches that follow must fit too.
	sharedEntryBytes = 512 << 10
)

// endWithServices ends the task by the last frame of its environment, with the output of its
// services before it. It reports whether the recorded frames replace that frame.
func (r *reader) endWithServices(ctx context.Context, last run.Frame) (replaced bool, err error) {
	r.mu.Lock()
	known := r.states[regionProgress].ended()
	// An earlier process that could not record the end may have sent it.
	sent := r.entry.Flight != nil && r.entry.Flight.Last >= last.N
	replacedBefore := sent && r.entry.Flight.Last > last.N
	r.mu.Unlock()
	if !known && replacedBefore && last.Result != nil {
		r.end(r.replacement(last))
	}
	if !known && !sent && last.Result != nil {
		output := r.serviceFrames(ctx)
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if len(output) > 0 {
			// The frames are in the journal before the first of them is sent: the next process
			// may find other output, and must not move the end.
			end := last
			end.Stream, end.Data = "", nil // endByFrame adds the notes
			tail := number(append(output, end), last.N)
			r.end(record{Result: last.Result, Last: tail[len(tail)-1].N, Tail: tail, Notes: last.Data})
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.entry.Tail) > 0 && r.entry.Tail[0].N >= last.N, nil
}

// replacement returns the record of an end whose frames replaced the last frame of the
// environment, and are lost in the journal. If they were sent with the end, it keeps its
// number: the gateway may have it.
func (r *reader) replacement(last run.Frame) record {
	r.mu.Lock()
	n := r.entry.Flight.Last
	if !r.entry.Flight.End {
		n++
	}
	r.mu.Unlock()
	end := last
	end.N, end.Stream, end.Data = n, "", nil // endByFrame adds the notes
	return record{Result: last.Result, Last: n, Tail: []run.Frame{end}, Notes: last.Data}
}

// number numbers frames from next on.
func number(frames []run.Frame, next int64) []run.Frame {
	for i := range frames {
		frames[i].N = next + int64(i)
	}
	return frames
}

// withoutServices returns the record of an end without the output of services.
func (r record) withoutServices() record {
	if len(r.Tail) == 0 {
		return r
	}
	first := r.Tail[0].N
	r.Tail = number(slices.DeleteFunc(slices.Clone(r.Tail), func(f run.Frame) bool { return f.Stream.Service() != "" }), first)
	r.Last = first + int64(len(r.Tail)) - 1
	return r
}

// hasRoom reports whether the journal has room for an end with the output of services.
func (x *execution) hasRoom(end record) bool {
	if x.a.shared == nil {
		return true
	}
	entry, err := encode(x.entry.record)
	line, lineErr := encode(end)
	return err == nil && lineErr == nil && len(entry)+len(line) <= sharedEntryBytes
}

// serviceFrames returns the last output of the task's services as frames without numbers.
// The end of the task does not depend on it: after an error there are none.
func (r *reader) serviceFrames(ctx context.Context) []run.Frame {
	h, ok := r.h.(executor.ServiceHandle)
	r.mu.Lock()
	def := r.def
	r.mu.Unlock()
	if !ok || def != nil && (len(def.Services) == 0 || !def.ServiceLogs) {
		return nil
	}
	readCtx, cancel := context.WithTimeout(ctx, serviceLogTimeout)
	defer cancel()
	logs, err := h.ServiceLogs(readCtx, run.MaxServiceLogBytes)
	if err != nil {
		r.log.WarnContext(ctx, "failed to read the logs of services", "error", err)
	}
	if !slices.ContainsFunc(logs, func(l executor.ServiceLog) bool { return len(l.Pieces) > 0 || l.Cut || l.Broken }) {
		return nil
	}
	hidden, err := r.serviceSecrets(readCtx)
	if err != nil {
		r.log.WarnContext(ctx, "leaving out the logs of services", "error", err)
		return nil
	}
	parts := len(logs)
	if r.a.shared != nil {
		parts *= sharedShare
	}
	var out []run.Frame
	for _, l := range logs {
		out = append(out, framesOf(l, hidden, r.a.now(), run.MaxServiceLogBytes/parts, run.MaxServiceLogFrames/parts)...)
	}
	return out
}

// serviceSecrets returns the secrets that the services may print: those of the definition
// that they were started with.
func (r *reader) serviceSecrets(ctx context.Context) (*mask.Set, error) {
	r.mu.Lock()
	def, reloaded := r.def, r.reloaded
	r.mu.Unlock()
	if def == nil { // an earlier process started the task
		d, err := r.claim.definition(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the secrets to mask: %w", err)
		}
		def, reloaded = &d, true
	}
	switch {
	case !def.ServiceLogs:
		return nil, errors.New("the gateway does not store them")
	case def.Fault != "":
		return nil, errors.New("the secrets to mask are unknown: " + def.Fault)
	case reloaded && def.ProviderSecrets:
		return nil, errors.New("the secrets of providers may have changed since the services were started")
	}
	return mask.NewSet(def.Secrets), nil
}

// framesOf returns the end of a service's masked output, and says what is missing.
func framesOf(l executor.ServiceLog, hidden *mask.Set, now time.Time, maxBytes, maxFrames int) []run.Frame {
	var out []run.Frame
	limit := min(run.MaxFrameData, max(1, maxBytes))
	add := func(at time.Time, data []byte) {
		if n := len(out); n > 0 && len(out[n-1].Data)+len(data) <= limit && at.Sub(out[n-1].Time) < frameSpan {
			out[n-1].Data = append(out[n-1].Data, data...)
			return
		}
		for part := range slices.Chunk(data, limit) {
			out = append(out, serviceFrame(l.Service, at, slices.Clone(part)))
		}
	}
	var at time.Time
	masked := make(map[run.Stream]*mask.Stream)
	for _, piece := range l.Pieces {
		if masked[piece.Stream] == nil {
			masked[piece.Stream] = hidden.Stream(func(data []byte) { add(at, data) })
		}
		at = piece.Time
		masked[piece.Stream].Write(piece.Data)
	}
	for _, stream := range slices.Sorted(maps.Keys(masked)) {
		masked[stream].Close()
	}
	size := 0
	for i, f := range slices.Backward(out) {
		if size += len(f.Data); size > maxBytes || len(out)-i > maxFrames-2 { // two are of Drover
			out, l.Cut = out[i+1:], true
			break
		}
	}
	if l.Cut {
		at := now
		if len(out) > 0 {
			at = out[0].Time
		}
		out = slices.Insert(out, 0, serviceFrame(l.Service, at, []byte("drover: earlier output of this service may be left out\n")))
	}
	if l.Broken {
		out = append(out, serviceFrame(l.Service, now, []byte("drover: further output of this service could not be read\n")))
	}
	return out
}

func serviceFrame(service string, at time.Time, data []byte) run.Frame {
	return run.Frame{
		Version: run.FrameOutput.Version(), Time: at, Kind: run.FrameOutput, Step: run.SetupStep, Stream: run.ServiceStream(service), Data: data,
	}
}
