package run

import (
	"bytes"
	"slices"
	"time"
)

// LogOutline summarizes a piece of a stored log, so that readers can skip it.
type LogOutline struct {
	From  time.Time `json:"f,omitzero"` // the earliest of its output
	To    time.Time `json:"t,omitzero"` // the latest
	Parts []LogPart `json:"p,omitempty"`
	// Ended has the steps that end in the piece.
	Ended []int `json:"e,omitempty"`
	// Begun says that a step begins in the piece.
	Begun bool `json:"b,omitempty"`
	// End says that the piece holds the task_end frame.
	End bool `json:"x,omitempty"`
	// EndPart counts the output of that frame. It is not in Parts, since gateways that read
	// none from such a frame must not expect it.
	EndPart *LogPart `json:"d,omitempty"`
}

// LogPart counts the output of one step to one stream.
type LogPart struct {
	Step   int    `json:"s"`
	Stream Stream `json:"o"`
	Bytes  int64  `json:"n"`
	Lines  int64  `json:"l,omitempty"` // newlines
}

// Add adds a frame to the outline.
func (o *LogOutline) Add(f Frame) {
	switch f.Kind {
	case FrameStepStart:
		o.Begun = true
	case FrameStepEnd:
		o.Ended = append(o.Ended, f.Step)
	case FrameTaskEnd:
		o.End = true
		if len(f.Data) > 0 {
			o.EndPart = &LogPart{Step: f.Step, Stream: f.Stream}
			o.addOutput(o.EndPart, f)
		}
	case FrameOutput:
		o.addOutput(o.part(f.Step, f.Stream), f)
	case FrameOutputs, FrameArchiveRequest:
	}
}

func (o *LogOutline) addOutput(p *LogPart, f Frame) {
	if o.From.IsZero() || f.Time.Before(o.From) {
		o.From = f.Time
	}
	if f.Time.After(o.To) {
		o.To = f.Time
	}
	p.Bytes += int64(len(f.Data))
	p.Lines += int64(bytes.Count(f.Data, []byte("\n")))
}

func (o *LogOutline) part(step int, stream Stream) *LogPart {
	for i := range o.Parts {
		if p := &o.Parts[i]; p.Step == step && p.Stream == stream {
			return p
		}
	}
	o.Parts = append(o.Parts, LogPart{Step: step, Stream: stream})
	return &o.Parts[len(o.Parts)-1]
}

// AllParts returns Parts and EndPart.
func (o *LogOutline) AllParts() []LogPart {
	if o.EndPart == nil {
		return o.Parts
	}
	return append(slices.Clip(o.Parts), *o.EndPart)
}

// Bytes returns the number of bytes of output in the piece.
func (o *LogOutline) Bytes() (n int64) {
	for _, p := range o.AllParts() {
		n += p.Bytes
	}
	return n
}

// OutlineOf returns the outline of frames.
func OutlineOf(frames []Frame) LogOutline {
	var o LogOutline
	for _, f := range frames {
		o.Add(f)
	}
	return o
}

// LogBlock is a piece of a compacted log that can be read alone.
type LogBlock struct {
	LogOutline
	First int64 `json:"a"` // frame number; likewise Last
	Last  int64 `json:"z"`
	At    int64 `json:"at"` // offset in the object
	Size  int64 `json:"sz"`
}

// CompactThreshold is the size up to which a log that came in one batch is not
// compacted, in bytes of output: compacting it would cost more than it saves.
const CompactThreshold = 32 << 10
